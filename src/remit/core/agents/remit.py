"""Remit's own agent: it has no hooks, its tools run in the gate's process."""

from remit.core.agents import row
from remit.core.call import OWN_AGENT, SESSION_VARIABLE

REMIT = row.Agent(
    agent=OWN_AGENT,
    title="Remit's own agent",
    binary="remit",
    transcripts="remit",
    shell_variables=(SESSION_VARIABLE,),
    command=row.AgentCommand(
        ("remit", "run", "--json", "--intent", "{intent}", "{prompt}"),
        (
            *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY"),
            *("GEMINI_API_KEY", "OPENAI_COMPATIBLE_API_KEY", "OPENAI_COMPATIBLE_BASE_URL", "OLLAMA_BASE_URL"),
            "REMIT_MODEL",
        ),
    ),
)
