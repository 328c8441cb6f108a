"""Codex CLI 0.169.0, 2026-11. Its shell tools all come as Bash{command}; what `write_stdin` sends comes not at all.

Switches: https://developers.openai.com/codex/hooks, read 2026-11.
"""

from remit.core.agents import row

LIVE_SETTINGS = (
    *('model_provider="scripted"', 'model_providers.scripted.name="scripted"'),
    *('model_providers.scripted.base_url="{url}/v1"', 'model_providers.scripted.wire_api="responses"'),
    *('model_providers.scripted.env_key="SCRIPTED_KEY"', "model_providers.scripted.request_max_retries=0"),
    # Plugins would need the network.
    *("model_providers.scripted.stream_max_retries=0", "analytics.enabled=false", "features.plugins=false"),
)

CODEX = row.AgentRow(
    agent="codex",
    title="Codex CLI",
    binary="codex",
    dialect="claude",
    transcripts="codex",
    rules="codex",
    events={name: event for name, event in row.HOOK_EVENTS.items() if event != "failed"},
    tools={
        "apply_patch": row.ToolRow("write", patch="command"),
        "Bash": row.SHELL_TOOL,
        **row.plain_tools(
            "view_image list_mcp_resources list_mcp_resource_templates read_mcp_resource",
            "web_search",
            "tool_search request_user_input get_goal update_goal update_plan",
        ),
    },
    config_folder=".codex",
    folder_variable=("CODEX_HOME", ""),
    hooks_file=".codex/hooks.json",
    accepted_json_forms=frozenset(),
    mcp_file=".codex/config.toml",
    settings_files=tuple(
        f".codex/{name}" for name in ("config.toml", "hooks.json", "hooks", "rules", "requirements.toml")
    ),
    login_files=("auth.json",),
    shows_turn_end=True,
    rewrites="with allow",
    context_events=("before", "after", "session_start", "prompt"),
    trusts_by_hash=True,
    switches=row.HookSwitches(
        files=("/etc/codex/requirements.toml", "/etc/codex/config.toml", "~/config.toml", "./.codex/config.toml"),
        switches=(("features.hooks", False), ("features.codex_hooks", False)),
        managed=(("allow_managed_hooks_only", True),),
    ),
    # It declares forms too, and its `auto_review` lets a model answer them: not a person.
    has_unwatched_stdin=True,
    has_sandbox=True,
    # `workdir` of exec_command
    hides_folder=True,
    transcript_path=".codex/sessions/*/*/*/rollout-*-{session}.jsonl",
    session_variable="CODEX_SESSION_ID",
    rule_files=("/etc/codex/rules/*.rules", "~/rules/*.rules", "./.codex/rules/*.rules"),
    rules_in_enforce="they hold for commands in Remit's sandbox, too; what they ask about runs outside of it, and is "
    "compared",
    unguarded_options=("--yolo", "--dangerously-bypass-approvals-and-sandbox", "--full-auto"),
    servers_key="mcp_servers",
    # Its own 10 s pass on a busy machine, and a session without Remit's tools cannot select an intent.
    server_settings={"default_tools_approval_mode": "approve", "startup_timeout_sec": 60},
    author_names=r"codex(?: cli)?",
    # Its own sandbox cannot be made inside another one.
    command=row.AgentCommand(
        (
            *("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access"),
            *("--config", "check_for_update_on_startup=false", "{prompt}"),
        ),
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"),
    ),
    live=row.LiveProbe(
        "openai responses",
        "gpt-5.5",
        "apply_patch",
        {"input": "*** Begin Patch\n*** Add File: {file}\n+probe\n*** End Patch"},
        words=tuple(word for setting in LIVE_SETTINGS for word in ("--config", setting)),
        variables={"SCRIPTED_KEY": row.DUMMY_KEY},
    ),
)
