"""How true the labels are: which questions people are asked, and what follows from their answers. Pure decisions."""
