"""Claude Code 2.1.330, 2026-11. Switches: https://code.claude.com/docs/en/settings, read 2026-11."""

from msgspec.structs import replace

from remit.core.agents import row

UNASKED_TOOLS = "Agent,Bash,Edit,Glob,Grep,NotebookEdit,Read,Skill,ToolSearch,Write,mcp__remit"
"""What it may do without a question, which nobody could answer: the gate judges each call all the same."""

RULE_FILES = (
    *("/etc/claude-code/managed-settings.json", "/etc/claude-code/managed-settings.d/*.json"),
    *("~/settings.json", "~/remote-settings.json"),
    *("./.claude/settings.json", "./.claude/settings.local.json"),
)

CLAUDE_CODE = row.AgentRow(
    agent="claude-code",
    title="Claude Code",
    binary="claude",
    dialect="claude",
    transcripts="claude",
    rules="claude",
    events=row.HOOK_EVENTS,
    tools={
        "Write": row.WRITE_FILE_TOOL,
        "Edit": row.REPLACE_TOOL,
        "MultiEdit": replace(row.REPLACE_TOOL, edits="edits"),
        "NotebookEdit": row.NOTEBOOK_TOOL,
        "Bash": row.SHELL_TOOL,
        "PowerShell": row.ToolRow("execute", whole_workspace=True),
        "Read": row.READ_FILE_TOOL,
        **row.plain_tools(
            "Glob Grep LS LSP NotebookRead BashOutput TaskOutput ListMcpResourcesTool ReadMcpResourceTool",
            "WebFetch WebSearch",
            "Agent Task TaskCreate TaskGet TaskList TaskStop TaskUpdate KillShell TodoWrite ToolSearch Skill "
            "AskUserQuestion EnterPlanMode ExitPlanMode EnterWorktree ExitWorktree ListAgents ReportFindings "
            "ScheduleWakeup Workflow",
        ),
    },
    config_folder=".claude",
    folder_variable=("CLAUDE_CONFIG_DIR", ""),
    hooks_file=".claude/settings.json",
    # It does not load hooks in a project's `settings.json` from a subdirectory (2.1.233 and later), and a team shares
    # that file.
    project_hooks_file=".claude/settings.local.json",
    accepted_json_forms=frozenset(("bom",)),
    mcp_file=".claude.json",
    settings_files=(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json"),
    instructions_file="CLAUDE.md",
    skills_folder=".claude/skills",
    own_folders=(".claude/plans", ".claude/projects"),
    login_files=(".credentials.json",),
    can_ask=True,
    shows_turn_end=True,
    # In a terminal; with -p it cancels them itself, which is no yes.
    shows_forms=True,
    rewrites="alone",
    switches=row.HookSwitches(
        files=(*RULE_FILES, "~/settings.local.json"),
        switches=(("disableAllHooks", True),),
        managed=(("allowManagedHooksOnly", True), ("strictPluginOnlyCustomization", True)),
        listed=("strictPluginOnlyCustomization",),
        variables=("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"),
    ),
    has_subagent_transcripts=True,
    transcript_path=".claude/projects/*/{session}.jsonl",
    session_variable="CLAUDE_CODE_SESSION_ID",
    shell_variables=("CLAUDECODE",),
    rule_files=RULE_FILES,
    rules_in_enforce="they hold for commands in Remit's sandbox, too",
    has_dialog=True,
    permissions=("mcp__remit",),
    unguarded_options=("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"),
    call_id_key="claudecode/toolUseId",
    note_name="claude",
    author_names=r"claude(?: code| opus| sonnet| haiku)|claude-code",
    author_addresses=r"noreply@anthropic\.com",
    # Sums of the session come with its last line, in USD too.
    command=row.AgentCommand(
        (
            *("claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "acceptEdits", "--allowedTools", UNASKED_TOOLS),
        ),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        settings={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    live=row.LiveProbe(
        "anthropic messages",
        "claude-sonnet-5",
        "Write",
        variables={
            "ANTHROPIC_API_KEY": row.DUMMY_KEY,
            "ANTHROPIC_BASE_URL": "{url}",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
        },
    ),
)
