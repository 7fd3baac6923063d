"""What a timeline means: lifetimes, memory, metrics, idle time. The only place where numbers are computed."""
