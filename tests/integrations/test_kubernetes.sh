#!/bin/bash
# The manifests of examples/kubernetes have only fields that Kubernetes knows, with values of the right types, every Secret
# has the mode that Banyan demands, and ranks cannot replace the agent's socket.
set -euo pipefail
. "$BANYAN_SOURCE/tests/integrations/python_packages.sh"
python_with kubernetes kubernetes-validate
cd "$BANYAN_SOURCE/examples/kubernetes"
"${python%/*}/kubernetes-validate" --strict ./*.yaml
"$python" - ./*.yaml <<'END'
import sys
import yaml

objects = [item for path in sys.argv[1:] for item in yaml.safe_load_all(open(path, encoding="utf-8"))]
volumes = [volume for item in objects if "template" in item["spec"] for volume in item["spec"]["template"]["spec"]["volumes"]]
secrets = [volume["secret"] for volume in volumes if "secret" in volume]
templates = [item["spec"]["template"]["spec"] for item in objects if "template" in item["spec"]]
ranks = [container for spec in templates for container in spec["containers"] if container["name"] == "rank"]
assert ranks and all(mount["readOnly"] for mount in ranks[0]["volumeMounts"] if mount["mountPath"] == "/run/banyan"), ranks
assert len(secrets) == 2 and all(secret["defaultMode"] == 0o400 for secret in secrets), secrets
print(f"{len(objects)} objects, {len(secrets)} volumes of Secrets with mode 0400")
END
