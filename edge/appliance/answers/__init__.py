"""The appliance's answers, by noun: frozen values. REST, its OpenAPI document, the page's types and the tests'
double are made of them. Times are UTC epoch seconds, shares fractions of one device, accuracies 0-1, boxes x1, y1,
x2, y2 as fractions of the picture."""
