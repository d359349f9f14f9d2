"""Back-up and restore of everything that an appliance remembers, and bringing configurations in from files."""
