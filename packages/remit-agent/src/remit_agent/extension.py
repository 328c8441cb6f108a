"""What the package adds to Remit."""

from remit.extensions import Extension

EXTENSION = Extension(
    commands={
        "Every day": {
            "run": ("remit_agent.faces.run_command:run", "Remit's own coding agent, in a terminal or on one task")
        },
        "For programs": {
            "acp-agent": (
                "remit_agent.faces.acp_command:acp_agent",
                "serve Remit's own agent to an editor, by ACP on stdio",
            ),
        },
    },
    console="remit_agent.pages.tables",
)
