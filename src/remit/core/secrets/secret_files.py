"""File names that suggest secrets: hashes of such files are recorded, contents are never stored."""

import re

SECRET_NAMES = re.compile(
    r"\.env(?:rc)?|\.env[._-].*|.*\.env|[._]netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.yarnrc\.yml|\.git-credentials"
    r"|\.htpasswd|\.dockercfg|\.vault[-_]?(?:token|pass(?:word)?)|\.s3cfg|\.boto|\.terraformrc|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:pem|key|p8|p12|pfx|pkcs12|jks|keystore|kdbx?|ppk|agekey|gpg|ovpn|tfstate|tfstate\.backup|tfvars|mobileprovision)"
    r"|(?:.*[._-])?(?:secrets?|credentials?)(?:[._-].*)?\.(?:ya?ml|json|toml|ini|txt|properties|env|enc)|secrets?|credentials?"
    r"|(?:.*[._-])?service[._-]?account.*\.json|client_secret.*\.json|token(?:s)?\.json|kubeconfig|master\.key",
    re.IGNORECASE | re.DOTALL,
)
SECRET_FOLDERS = re.compile(r"(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.gcloud|\.kube|\.docker)/", re.IGNORECASE)
SAMPLE_NAMES = re.compile(r".*(?:example|sample|template|dist|defaults?|\.pub)(?:\.[a-z]+)?", re.IGNORECASE | re.DOTALL)
"""Files made to be shared, which hold no secrets."""


def is_secret_file(path: str) -> bool:
    """Return whether a file's name suggests secrets. `path` is relative, with `/`."""
    name = path.rpartition("/")[2]
    if SAMPLE_NAMES.fullmatch(name):
        return False
    return SECRET_NAMES.fullmatch(name) is not None or SECRET_FOLDERS.search(path) is not None
