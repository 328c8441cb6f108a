"""Qwen Code 0.24.4, 2026-11. It unwraps `tool_call` before its hooks; a timeout of 1000 or more is in ms. It accepts no
replaced command from a hook. Switches: https://qwenlm.github.io/qwen-code-docs/en/users/features/hooks, read 2026-11.
"""

from remit.core.agents import row

QWEN = row.AgentRow(
    agent="qwen",
    title="Qwen Code",
    binary="qwen",
    dialect="claude",
    transcripts="qwen",
    events=row.HOOK_EVENTS,
    tools={
        "write_file": row.WRITE_FILE_TOOL,
        "edit": row.REPLACE_TOOL,
        "notebook_edit": row.NOTEBOOK_TOOL,
        "run_shell_command": row.SHELL_TOOL,
        "read_file": row.READ_FILE_TOOL,
        **row.plain_tools(
            "read_many_files glob grep_search list_directory lsp task_output",
            "web_fetch web_search",
            "agent task_create task_get task_list task_stop task_update todo_write skill tool_search tool_call "
            "get_goal ask_user_question exit_plan_mode",
        ),
    },
    config_folder=".qwen",
    folder_variable=("QWEN_HOME", ""),
    hooks_file=".qwen/settings.json",
    mcp_file=".qwen/settings.json",
    settings_files=(".qwen/settings.json", ".qwen/trustedFolders.json", ".qwen/hooks", ".qwen/extensions"),
    own_folders=(".qwen/plans", ".qwen/projects", ".qwen/tmp"),
    login_files=("oauth_creds.json",),
    can_ask=True,
    shows_turn_end=True,
    context_events=("after", "failed", "session_start", "prompt"),
    switches=row.HookSwitches(
        files=(
            *("/etc/qwen-code/system-defaults.json", "/etc/qwen-code/settings.json"),
            *("~/settings.json", "./.qwen/settings.json"),
        ),
        switches=(
            *(("disableAllHooks", True), ("hooksConfig.enabled", False)),
            *(("hooks.enabled", False), ("tools.enableHooks", False)),
        ),
        listed=("hooksConfig.disabled", "hooks.disabled"),
        file_variables=("QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"),
    ),
    transcript_path=".qwen/projects/*/chats/{session}.jsonl",
    session_variable="QWEN_CODE_SESSION_ID",
    rules_in_enforce="they hold as ever; its commands run outside of Remit's sandbox, and are compared",
    unguarded_options=("-y", "--yolo"),
    prompt_options=("-i",),
    server_settings={"trust": True},
    author_names=r"qwen(?: |-)code",
    command=row.AgentCommand(
        ("qwen", "--yolo", "--output-format", "stream-json", "{prompt}"),
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
        settings={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
    ),
    live=row.LiveProbe(
        "openai chat",
        "scripted-model",
        words=("--auth-type", "openai"),
        variables={
            "OPENAI_API_KEY": row.DUMMY_KEY,
            "OPENAI_BASE_URL": "{url}/v1",
            "QWEN_USAGE_STATISTICS_ENABLED": "false",
        },
    ),
)
