"""DS2 per operator (OSDI '18): what was measured, the rule, and its scaling manager."""
