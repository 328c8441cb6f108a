"""Commands about the rules: mode, approvals, trust, tests of the policy."""
