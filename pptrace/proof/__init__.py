"""A small exact model run through a schedule op by op, gradients compared with the unsplit step."""
