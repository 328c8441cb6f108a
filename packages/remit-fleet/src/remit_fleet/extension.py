"""What the package adds to Remit."""

from remit.extensions import Extension

EXTENSION = Extension(
    commands={
        "Several agents": {
            "plan": ("remit_fleet.commands.plan:plan", "let several agents work at once, each on an intent of its own"),
            "task": ("remit_fleet.commands.task:task", "one intent of a plan: show it, try it again, drop it"),
            "worker": ("remit_fleet.commands.worker:worker", "run agents for plans; list the workers"),
            "fleet": ("remit_fleet.commands.fleet:fleet", "check the fleet, or build its database anew"),
        },
    },
    console="remit_fleet.pages.tables",
    errors="remit_fleet.database.troubles",
)
