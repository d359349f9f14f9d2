"""The load tool: arrivals, a client that asks on time whatever the answers do, and its report."""
