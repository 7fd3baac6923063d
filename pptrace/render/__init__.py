"""Pictures of a report: layout without a medium, then one file per medium. Nothing is computed here."""
