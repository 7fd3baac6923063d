"""What is wrong with a schedule, as values: findings with a code, a place and a remedy."""
