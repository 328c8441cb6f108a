"""The agents, one row each. Sources: the clients themselves, run with dumping hooks; versions beside each row."""

from remit.adapters.row import AgentRow, ToolRow

READ = ToolRow("read")
HARMLESS = ToolRow("none")
FETCH = ToolRow("network")

CLAUDE_CODE = AgentRow(  # 2.1.330, 2026-11
    agent="claude-code",
    title="Claude Code",
    dialect="claude",
    events={
        "PreToolUse": "before",
        "PostToolUse": "after",
        "PostToolUseFailure": "failed",
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt",
        "Stop": "turn_end",
        "SubagentStop": "turn_end",
        "SessionEnd": "session_end",
    },
    tools={
        "Write": ToolRow("write", paths=("file_path",)),
        "Edit": ToolRow("write", paths=("file_path",), checks_itself=True),
        "MultiEdit": ToolRow("write", paths=("file_path",), checks_itself=True),
        "NotebookEdit": ToolRow("write", paths=("notebook_path",)),
        "Bash": ToolRow("execute", command="command", whole_workspace=True),
        "PowerShell": ToolRow("execute", command="command", whole_workspace=True),
        "Read": ToolRow("read", paths=("file_path",)),
        "Glob": READ,
        "Grep": READ,
        "LS": READ,
        "LSP": READ,
        "NotebookRead": READ,
        "BashOutput": READ,
        "TaskOutput": READ,
        "ListMcpResourcesTool": READ,
        "ReadMcpResourceTool": READ,
        "WebFetch": FETCH,
        "WebSearch": FETCH,
        "Agent": HARMLESS,
        "Task": HARMLESS,
        "TaskCreate": HARMLESS,
        "TaskGet": HARMLESS,
        "TaskList": HARMLESS,
        "TaskStop": HARMLESS,
        "TaskUpdate": HARMLESS,
        "KillShell": HARMLESS,
        "TodoWrite": HARMLESS,
        "ToolSearch": HARMLESS,
        "Skill": HARMLESS,
        "AskUserQuestion": HARMLESS,
        "EnterPlanMode": HARMLESS,
        "ExitPlanMode": HARMLESS,
        "EnterWorktree": HARMLESS,
        "ExitWorktree": HARMLESS,
        "ListAgents": HARMLESS,
        "ReportFindings": HARMLESS,
        "ScheduleWakeup": HARMLESS,
        "Workflow": HARMLESS,
    },
    mcp_name=r"mcp__(?P<server>.+?)__(?P<tool>.+)",
    settings=(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json"),
    own_folders=(".claude/plans", ".claude/projects"),
    asks=True,
)

ROWS: dict[str, AgentRow] = {"claude-code": CLAUDE_CODE}
