"""Gemini CLI 0.61.0, 2026-11. An `ask` without a person hangs it for ever. Switches: https://geminicli.com/docs/hooks,
read 2026-11.
"""

from msgspec.structs import replace

from remit.core.agents import row

SWITCHES = (("hooksConfig.enabled", False), ("hooks.enabled", False), ("tools.enableHooks", False))
LIVE_SETTINGS = (
    '{"privacy": {"usageStatisticsEnabled": false}, "security": {"auth": {"selectedType": "gemini-api-key"}}}\n'
)

GEMINI = row.AgentRow(
    agent="gemini",
    title="Gemini CLI",
    binary="gemini",
    dialect="gemini",
    transcripts="gemini",
    rules="gemini",
    events={
        "BeforeTool": "before",
        "AfterTool": "after",
        "SessionStart": "session_start",
        "BeforeAgent": "prompt",
        "AfterAgent": "turn_end",
        "SessionEnd": "session_end",
    },
    tools={
        "write_file": row.WRITE_FILE_TOOL,
        "replace": replace(row.REPLACE_TOOL, replace_all="allow_multiple"),
        "run_shell_command": row.SHELL_TOOL,
        "read_file": row.READ_FILE_TOOL,
        **row.plain_tools(
            "read_many_files glob grep_search search_file_content list_directory get_internal_docs "
            "list_background_processes read_background_output",
            "web_fetch google_web_search",
            "update_topic write_todos activate_skill ask_user enter_plan_mode exit_plan_mode",
        ),
    },
    mcp_name=r"mcp_(?P<server>[^_]+)_(?P<tool>.+)",
    config_folder=".gemini",
    folder_variable=("GEMINI_CLI_HOME", ".gemini"),
    hooks_file=".gemini/settings.json",
    mcp_file=".gemini/settings.json",
    timeout_unit="ms",
    max_timeout=600_000,
    settings_files=tuple(
        f".gemini/{name}" for name in ("settings.json", "trustedFolders.json", "hooks", "extensions", "policies")
    ),
    own_folders=(".gemini/tmp",),
    login_files=("oauth_creds.json", "google_accounts.json"),
    login_variables=("GEMINI_CONFIG_DIR",),
    shows_turn_end=True,
    rewrites="alone",
    context_events=("after", "session_start", "prompt"),
    switches=row.HookSwitches(
        files=(
            *("/etc/gemini-cli/system-defaults.json", "/etc/gemini-cli/settings.json"),
            *("~/settings.json", "./.gemini/settings.json"),
        ),
        switches=SWITCHES,
        listed=("hooksConfig.disabled", "hooks.disabled"),
        file_variables=("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"),
    ),
    transcript_path=".gemini/tmp/*/chats/session-*-{start}.json*",
    answer_sign=b'"type":"gemini"',
    shell_variables=("GEMINI_CLI",),
    rule_files=(
        *("/etc/gemini-cli/settings.json", "/etc/gemini-cli/policies/*.toml"),
        *("~/settings.json", "~/policies/*.toml"),
        *("./.gemini/settings.json", "./.gemini/policies/*.toml"),
    ),
    rules_in_enforce="they hold; without --yolo commands run outside of Remit's sandbox, and are compared",
    unguarded_options=("-y", "--yolo"),
    prompt_options=("-i",),
    server_settings={"trust": True},
    author_names=r"gemini(?: |-)cli",
    # In a folder that is not trusted it reads no hooks, and ends with 55.
    command=row.AgentCommand(
        ("gemini", "--yolo", "--output-format", "stream-json", "--prompt", "{prompt}"),
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        settings={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    live=row.LiveProbe(
        "google generate",
        "gemini-2.5-pro",
        variables={"GEMINI_API_KEY": row.DUMMY_KEY, "GOOGLE_GEMINI_BASE_URL": "{url}"},
        files={".gemini/settings.json": LIVE_SETTINGS},
    ),
)
