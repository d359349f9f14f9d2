"""How true the labels are: which questions people are asked, and the estimate from their answers. Pure decisions."""
