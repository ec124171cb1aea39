"""A real Kubernetes API server with its controllers, on loopback: etcd, kube-apiserver, kube-controller-manager.

There is no node, so the part of the kubelet is played: a pod is ready when :meth:`Kubernetes.pods_ready` says so. What
is real: authentication, RBAC, admission, the ``scale`` subresource, optimistic concurrency, and who makes pods of a
number of replicas.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from perdix.cli.processes import Processes, free_port
from tests.e2e.twin_in_real_time import until

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "openssl")
ASSETS = "KUBEBUILDER_ASSETS"  # where other tests of the field look for them; else the PATH
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,serviceaccount-controller,"
    "root-ca-certificate-publisher-controller,resourcequota-controller,namespace-controller"
)
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
ADMIN = "token-of-the-tests-administrator"


def program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get(ASSETS, ""), os.environ.get("PATH", "")]))


MISSING = [name for name in PROGRAMS if program(name) is None]


@dataclass
class Kubernetes:
    """The API server, and who may do everything there."""

    folder: Path
    url: str
    running: Processes
    port: int
    etcd: str

    @property
    def authority(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def admin(self) -> Path:
        return self.folder / "admin.yaml"

    def kubectl(self, *arguments: str, given: Mapping[str, Any] | str | None = None, check: bool = True) -> str:
        """Return what kubectl prints; where it fails and that is not asked for, its complaint is raised."""
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        command = [str(program("kubectl")), "--kubeconfig", str(self.admin), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout if done.returncode == 0 else done.stderr

    def apply(self, given: Mapping[str, Any] | str) -> str:
        return self.kubectl("apply", "-f", "-", given=given)

    def get(self, what: str, namespace: str = "prod") -> dict[str, Any]:
        return json.loads(self.kubectl("get", what, "-n", namespace, "-o", "json"))

    def kubeconfig(self, name: str, token: str) -> Path:
        """Write the kubeconfig of somebody who has a token."""
        file = self.folder / f"{name}.yaml"
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        file.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "here", "cluster": cluster}],
                    "users": [{"name": name, "user": {"token": token}}],
                    "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}],
                    "current-context": "here",
                }
            )
        )
        return file

    def token(self, account: str, namespace: str = "perdix") -> str:
        return self.kubectl("create", "token", account, "-n", namespace).strip()

    def pods_ready(self, selector: str, namespace: str = "prod") -> None:
        """Play the kubelet: every pod of a selector answers its readiness probes from now on."""
        names = self.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "name").split()
        for name in names:
            self.kubectl("patch", name, "-n", namespace, "--subresource=status", "-p", json.dumps(READY))

    def start_api(self) -> None:
        keys = [f"--service-account-{of}={self.folder / 'accounts.key'}" for of in ("key-file", "signing-key-file")]
        command = [
            str(program("kube-apiserver")),
            f"--etcd-servers={self.etcd}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            *keys,
        ]
        self.running.start("kube-apiserver", command, os.environ)
        until(lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok", 120, "the API server")

    def kill_api(self) -> None:
        child = self.running.children.pop("kube-apiserver")
        child.kill()
        child.wait()


@contextmanager
def kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """Start it, with the namespaces of the shipped manifests: ``perdix`` and ``prod``."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
    port, (client, peer) = free_port(6443), (free_port(2379), free_port(2380))
    etcd = f"http://127.0.0.1:{client}"
    with Processes(folder / "logs") as running:
        own = Kubernetes(folder, f"https://127.0.0.1:{port}", running, port, etcd)
        own.kubeconfig("admin", ADMIN)
        command = [str(program("etcd")), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync"]
        command += [f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"]
        command += [f"--listen-peer-urls=http://127.0.0.1:{peer}"]
        running.start("etcd", command, os.environ)
        own.start_api()
        command = [str(program("kube-controller-manager")), f"--kubeconfig={own.admin}", f"--controllers={CONTROLLERS}"]
        command += [f"--service-account-private-key-file={folder / 'accounts.key'}", f"--root-ca-file={own.authority}"]
        command += ["--leader-elect=false", f"--secure-port={free_port(10257)}", "--bind-address=127.0.0.1"]
        running.start("kube-controller-manager", command, os.environ)
        for namespace in ("perdix", "prod"):
            own.kubectl("create", "namespace", namespace)
            until(lambda of=namespace: "default" in own.kubectl("get", "sa", "-n", of, check=False), 60, "its account")
        yield own
