"""Commands that look at the machine run as they are; the same programs with a word that changes something do not."""

import pytest

from remit.gate.containment.messages import describe_unseen_things
from remit.policy.commands import analyse

READS = (
    "ss -ltnp",
    "ss -ltn 'sport = :3000'",
    "lsof -i :3000",
    "lsof -nP -iTCP -sTCP:LISTEN",
    "lsof -ti:8000",
    "netstat -tulpn",
    "fuser 3000/tcp",
    "docker ps",
    "docker ps -a --format '{{.Names}}'",
    "docker logs --tail 50 web",
    "docker inspect web",
    "docker images -q",
    "docker compose ps",
    "docker stats --no-stream",
    "docker container ls -a",
    "podman ps",
    "kubectl get pods -A",
    "kubectl -n prod get pods -o wide",
    "kubectl describe pod x -n y",
    "kubectl logs -f x -c y",
    "kubectl cluster-info",
    "gh pr view 12",
    "gh pr list --state open --json number,title --jq '.[]'",
    "gh issue list -L 5",
    "gh run view 123 --log-failed",
    "gh auth status",
    "systemctl status nginx",
    "systemctl --user status x",
    "systemctl list-units --type=service",
    "systemctl --failed",
    "journalctl -u nginx -n 50 --no-pager",
    "journalctl -b -1 -p err",
    "bat src/a.py",
    "bat -p --paging=never src/a.py",
    "top -b -n1",
    "ip addr",
    "ip -br a",
    "ip route show",
    "dmesg -T",
    "pstree -p",
    "ps aux | grep x; ss -ltn; docker ps; git status",
    "last",
    "getent passwd",
)

OTHERS = (
    "ss -K dst 1.2.3.4",
    "ss -D f",
    "lsof -D b",
    "fuser -k 3000/tcp",
    "docker run x",
    "docker rm x",
    "docker stats",
    "docker -H tcp://x ps",
    "kubectl --kubeconfig ./k get pods",
    "kubectl get --raw /x",
    "kubectl delete pod x",
    "kubectl exec x -- sh",
    "kubectl cluster-info dump",
    "gh pr view --web",
    "gh pr merge 1",
    "gh api repos/x/y",
    "gh auth status --show-token",
    "gh auth token",
    "systemctl restart nginx",
    "systemctl -H host status",
    "journalctl --vacuum-time=1d",
    "journalctl --cursor-file=x",
    "journalctl --rotate",
    "bat cache --build",
    "bat --paging=always x",
    "bat --pager 'sh evil' x",
    "top",
    "ip link set eth0 down",
    "ip netns exec x sh",
    "dmesg -C",
    "cd ../sub && gh pr view",
    "cargo metadata",
    "npm ls",
)


@pytest.mark.parametrize("command", READS)
def test_a_command_that_looks_at_the_machine_only_reads(command: str) -> None:
    assert analyse(command).outcome == "read_only"


@pytest.mark.parametrize("command", OTHERS)
def test_with_other_words_it_is_not_proved_to_read(command: str) -> None:
    assert analyse(command).outcome != "read_only"


def test_what_looked_from_inside_says_so() -> None:
    said = describe_unseen_things({"ps", "docker", "python3"})
    assert "`ps`, `docker` cannot see other processes and the container engine" in said
    assert describe_unseen_things({"grep", "python3"}) == ""
