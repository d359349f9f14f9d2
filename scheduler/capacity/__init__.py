"""What a change would do to a box: its effect on shares and learning, intervals, and comparison with what came."""
