"""Gateway: the way of every model call, on which credentials are added and money is counted."""
