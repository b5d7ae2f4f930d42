"""A fleet over a bucket in this process, whose objects a test may count, refuse, take away and put back."""

import json

import buckets
from harness import Site, free_port, run, succeed, until
from health import ask

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET, "AWS_REGION": buckets.REGION,
    "AWS_EC2_METADATA_DISABLED": "true"}
STORE = "s3://events/w"


class WatchedFleet:
    """Receivers, agents and mergers of one bucket, each with an address for its metrics."""

    def __init__(self, site: Site, names=("a", "b")):
        self.site, self.written, self.bucket = site, [], buckets.SmallStore()
        self.ports = {name: free_port() for name in names}
        self.metrics = {}
        succeed("store", "init", "--store", STORE, "--endpoint", self.bucket.url, env=ENVIRONMENT)

    def close(self):
        self.bucket.close()

    def address(self, name):
        return f"127.0.0.1:{self.port(name)}"

    def port(self, name):
        """Where a program serves its metrics."""
        if name not in self.metrics:
            self.metrics[name] = free_port()
        return self.metrics[name]

    @property
    def section(self):
        return f"store: {{url: '{STORE}', endpoint: '{self.bucket.url}', clock: host}}\n"

    # Processes

    def receiver_configuration(self, name, data=None, port=None, more="projections: none, exports: []"):
        config = self.site.root / f"{data or name}.yaml"
        config.write_text(
            self.section + f"receiver: {{data: {self.site.root}/{data or name}, listen: '127.0.0.1:"
            f"{port or self.ports[name]}', name: {name}, metrics: '{self.address(data or name)}', "
            f"piece: {{seconds: 1, mib: 1}}, stop_seconds: 60, {more}}}\n", encoding="utf-8")
        return config

    def receiver(self, name, **options):
        config = self.receiver_configuration(name, **options)
        process = self.site.start(
            "receiver", "--config", config, log=f"{options.get('data') or name}.log", env=ENVIRONMENT)
        process.until_logged("the journal goes to the bucket", 60)
        return self.answering(options.get("data") or name, process)

    def agent(self, name="x", *arguments, ports=None):
        logs = self.site.root / f"logs-{name}"
        logs.mkdir(exist_ok=True)
        receivers = [part for port in ports or self.ports.values() for part in ("--to", f"127.0.0.1:{port}")]
        process = self.site.start(
            "agent", "--name", name, "--state", self.site.root / f"agent-{name}", *receivers, "--glob", f"{logs}/*.ndjson",
            "--env", "prod", "--bundle", "com.example.shop", "--time-member", "ts", "--name-member", "name", "--metrics",
            self.address(f"agent-{name}"), *arguments, log=f"agent-{name}.log")
        return self.answering(f"agent-{name}", process)

    def merger_configuration(self, name, more="exports: [{provider: csv}]"):
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            self.section + f"merger:\n  data: {self.site.root}/{name}\n  name: {name}\n"
            f"  metrics: '{self.address(name)}'\n  {more}\n", encoding="utf-8")
        return config

    def merger(self, name="m1", *arguments, env=None):
        config = self.merger_configuration(name)
        process = self.site.start(
            "merge", "--config", config, *arguments, log=f"{name}.log", env={**ENVIRONMENT, **(env or {})})
        return self.answering(name, process)

    def answering(self, name, process):
        """Waits until a program answers at the address of its metrics."""
        until(lambda: ask(self.port(name), "/livez") or not process.is_running, 60, f"{name} answers")
        return process

    # Lines

    def write(self, count, agent="x"):
        path = self.site.root / f"logs-{agent}"
        path.mkdir(exist_ok=True)
        lines = [
            json.dumps({"ts": f"2026-11-18T10:00:{number % 60:02}.000Z", "name": "bought", "n": number})
            for number in range(len(self.written), len(self.written) + count)]
        self.written += lines
        with open(path / "app.ndjson", "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))

    def archived(self, name):
        """The lines in the open files of an archive: nothing that tests write is sealed while they run."""
        return [
            line for path in (self.site.root / name / "archive").glob("**/*.ndjson")
            for line in path.read_text(encoding="utf-8").splitlines()]

    # What an operator asks

    def fleet(self, *arguments, status=()):
        """The exit code of `waybill fleet --json`, and its answer."""
        places = ["--status", *(self.address(name) for name in status)] if status else []
        result = run(
            "fleet", "--store", STORE, "--endpoint", self.bucket.url, "--json", *places, *arguments, env=ENVIRONMENT,
            timeout=240)
        assert not result.stderr, result.stderr
        return result.returncode, json.loads(result.stdout)
