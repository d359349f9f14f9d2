"""The load tool: arrivals, a client that sends on time even without answers, and its report."""
