#!/usr/bin/env python3
"""Records what a kube-apiserver says about itself and packs it into one zip.

    python3 capture.py --kubeconfig FILE --out kube-apiserver-1.34.4.zip

Use a freshly started server with default flags and an admin kubeconfig that embeds a client
certificate. Alpha features must be off: the file is the reference for what is served by default.
Only the standard library is needed. `--repack FOLDER` packs a recorded folder again instead.
"""

import argparse
import base64
import http.client
import json
import pathlib
import re
import ssl
import tempfile
import urllib.parse
import zipfile

JSON = "application/json"
OPENAPI_V2_PB = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
BOOTSTRAP = {
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "roles": "/apis/rbac.authorization.k8s.io/v1/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "flowschemas": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "namespaces": "/api/v1/namespaces",
    "services": "/api/v1/services",
    "apiservices": "/apis/apiregistration.k8s.io/v1/apiservices",
    "servicecidrs": "/apis/networking.k8s.io/v1/servicecidrs",
}


def aggregated(version):
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


class Recorder:
    """Fetches paths of one server and remembers the answers by file name."""

    def __init__(self, kubeconfig):
        text = pathlib.Path(kubeconfig).read_text()
        self.address = urllib.parse.urlsplit(re.search(r"server:\s*(\S+)", text).group(1))
        self.context = self.tls(text)
        self.files = {}
        self.index = []

    @staticmethod
    def tls(text):
        def embedded(key):
            return base64.b64decode(re.search(rf"{key}:\s*\"?([A-Za-z0-9+/=]+)", text).group(1))

        context = ssl.create_default_context(cadata=embedded("certificate-authority-data").decode())
        with tempfile.TemporaryDirectory() as folder:
            pair = pathlib.Path(folder, "pair.pem")
            pair.write_bytes(embedded("client-certificate-data") + b"\n" + embedded("client-key-data"))
            context.load_cert_chain(pair)
        return context

    def fetch(self, path, accept):
        link = http.client.HTTPSConnection(self.address.hostname, self.address.port, context=self.context)
        link.request("GET", path, headers={"Accept": accept})
        answer = link.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read()

    def save(self, name, path, accept=JSON):
        status, kind, body = self.fetch(path, accept)
        self.files[name] = body
        entry = {"file": name, "path": path, "accept": accept, "status": status, "contentType": kind}
        self.index.append(entry | {"bytes": len(body)})
        return body

    def everything(self):
        self.save("version.json", "/version")
        lists = [json.loads(self.save("api/v1.json", "/api/v1"))]
        for root in ("api", "apis"):
            self.save(f"{root}.json", f"/{root}")
            for version in ("v2", "v2beta1"):
                self.save(f"{root}.aggregated-{version}.json", f"/{root}", aggregated(version))
        for group in json.loads(self.files["apis.json"])["groups"]:
            self.save(f"apis/{group['name']}.json", f"/apis/{group['name']}")
            for version in group["versions"]:
                name = version["groupVersion"]
                lists.append(json.loads(self.save(f"apis/{name}.json", f"/apis/{name}")))
        self.save("openapi/v2.json", "/openapi/v2")
        self.save("openapi/v2.pb", "/openapi/v2", OPENAPI_V2_PB)
        for path, entry in json.loads(self.save("openapi/v3.json", "/openapi/v3"))["paths"].items():
            self.save(f"openapi/v3/{path.replace('/', '__')}.json", entry["serverRelativeURL"])
        for name, path in BOOTSTRAP.items():
            self.save(f"bootstrap/{name}.json", path)
        for listing in lists:
            self.columns(listing)
        self.files["index.json"] = json.dumps(self.index, indent=1).encode()

    def columns(self, listing):
        version = listing["groupVersion"]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        for resource in listing["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"]:
                continue
            status, _, body = self.fetch(f"{root}/{resource['name']}", TABLE)
            table = json.loads(body) if status == 200 else {}
            if table.get("kind") == "Table":
                name = f"tables/{version.replace('/', '_')}__{resource['name']}.json"
                self.files[name] = json.dumps(table["columnDefinitions"], indent=0).encode()


def pack(files, out):
    """Entries are sorted and carry a fixed time, so that equal answers give an equal file."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kubeconfig")
    options.add_argument("--repack", type=pathlib.Path)
    options.add_argument("--out", required=True)
    given = options.parse_args()
    if given.repack:
        found = (path for path in given.repack.rglob("*") if path.is_file())
        files = {path.relative_to(given.repack).as_posix(): path.read_bytes() for path in found}
    else:
        recorder = Recorder(given.kubeconfig)
        recorder.everything()
        files = recorder.files
    pack(files, given.out)
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
