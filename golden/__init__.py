"""Golden models: heavy teachers that label a budgeted sample of each camera's frames."""
