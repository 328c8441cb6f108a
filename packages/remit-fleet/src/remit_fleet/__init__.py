"""The fleet: several agents at once in one repository, each within its intent, landing without conflicts."""
