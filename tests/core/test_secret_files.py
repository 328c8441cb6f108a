"""Which names say that a file holds secrets."""

import pytest

from remit.core.secrets.secret_files import is_secret_file


@pytest.mark.parametrize(
    "path",
    [
     ".env", "app/.env.production", "prod.env", "tls/server.pem", "server.key", "id_ed25519", ".netrc", ".npmrc",
     ".pypirc",
     ".git-credentials", "config/secrets.yaml", "credentials.json", "infra/prod.tfvars", "terraform.tfstate", "a.p12",
     "home/.aws/config", "x/.ssh/known", ".pgpass", "client_secret_1.json", "SERVER.PEM"],
)  # fmt: skip
def test_a_name_of_secrets_is_known(path: str) -> None:
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path",
    [".env.example", ".env.sample", "env.py", "src/environment.ts", "id_rsa.pub", "src/secrets.py",
     "src/credentials.ts",
     "tests/core/secret_corpus.py", "tokens.css", "src/token.py", "docs/keys.md", "keyboard.json", "secretary.md",
     "a/b/c.txt"],
)  # fmt: skip
def test_other_names_are_not(path: str) -> None:
    assert not is_secret_file(path)
