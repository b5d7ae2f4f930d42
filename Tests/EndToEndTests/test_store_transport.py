"""How a bucket is reached: TLS with authorities of one's own, a proxy, and credentials from a container's address."""

import itertools
import json
import select
import socket
import ssl
import time

from buckets import KEY, SECRET
from certificates import Authority
from harness import Handler, serve, succeed, until
from test_store import TOKEN, StoreTest

PERMIT = "a-permit-of-the-container-that-never-prints"


class Tunnel(Handler):
    """A proxy that opens tunnels to the store, which no one else can find under its name."""

    def do_CONNECT(self):
        self.server.opened.append(self.path)
        with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as there:
            self.send_response_only(200)
            self.end_headers()
            ends = {self.connection: there, there: self.connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    content = end.recv(65536)
                    if not content:
                        return
                    ends[end].sendall(content)


class Credentials(Handler):
    """The address at which a container asks for its role's keys."""

    def do_GET(self):
        self.server.asked += 1
        is_permitted = self.headers.get("Authorization") == PERMIT
        # Used for three seconds: keys are replaced five minutes before their end.
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 303))
        keys = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": TOKEN, "Expiration": end}
        content = json.dumps(keys if is_permitted else {"message": "not permitted"}).encode()
        self.send_response_only(200 if is_permitted else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class TransportTests(StoreTest):
    def encrypt(self):
        """Puts TLS before the store; returns its authority."""
        authority = Authority(self.site.root / "tls")
        certificate, key = authority.issue("store", alternatives="IP:127.0.0.1,DNS:store.example.com")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.store.server.socket = context.wrap_socket(self.store.server.socket, server_side=True)
        self.store.url = self.store.url.replace("http:", "https:")
        return authority

    def configured(self, *lines):
        config = self.site.root / "store.yaml"
        config.write_text("store:\n" + "".join(
            f"  {line}\n" for line in ("url: s3://events/way/bill", f"endpoint: {self.store.url}", *lines)))
        return ["--config", config]

    def test_tls_with_an_authority_of_ones_own(self):
        authority = self.encrypt()
        self.assertIn("good  write", self.waybill("check", options=self.configured(f"ca: {authority.certificate}")))
        self.assertGreater(len(self.store.requests), 0)
        count = len(self.store.requests)
        other = Authority(self.site.root / "other", "other")
        said = self.waybill("check", code=69, options=self.configured(f"ca: {other.certificate}"))
        self.assertIn("certificate", said.lower())
        self.assertEqual(len(self.store.requests), count, "no one is asked whose certificate is not known")

    def test_a_proxy(self):
        authority = self.encrypt()
        proxy = serve(self, Tunnel, opened=[])
        self.store.url = self.store.url.replace("127.0.0.1", "store.example.com")
        options = self.configured(f"ca: {authority.certificate}")
        address = f"http://127.0.0.1:{proxy.server_port}"
        self.assertIn("good  write", self.waybill("check", options=options, HTTPS_PROXY=address, NO_PROXY=""))
        self.assertEqual(set(proxy.opened), {self.store.url.removeprefix("https://")})
        opened = len(proxy.opened)
        self.waybill("check", code=69, options=options, HTTPS_PROXY=address, NO_PROXY=".example.com")
        self.assertEqual(len(proxy.opened), opened)

    def container(self, permit):
        file = self.site.root / "permit"
        file.write_text(permit + "\n")
        source = serve(self, Credentials, asked=0)
        return source, {
            "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{source.server_port}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(file)}

    def test_credentials_of_a_container(self):
        source, variables = self.container(PERMIT)
        said = self.waybill("check", **variables)
        self.assertIn("credentials from the container's credential address", said)
        self.assertEqual(source.asked, 1)
        source, variables = self.container("another")
        said = self.waybill("check", code=77, **variables)
        self.assertNotIn("another\n", said)
        self.assertNotIn(PERMIT, said)

    def test_credentials_that_end_are_replaced_while_a_receiver_runs(self):
        source, variables = self.container(PERMIT)
        self.waybill("init")
        config = self.site.root / "a.yaml"
        config.write_text(
            f"store: {{url: 's3://events/way/bill', endpoint: '{self.store.url}'}}\n"
            f"receiver: {{data: {self.site.root}/a, listen: '{self.site.address}', name: a, projections: none, "
            "piece: {seconds: 1, mib: 1}, exports: []}\n")
        receiver = self.site.start("receiver", "--config", config, log="a.log", env=self.environment(**variables))
        receiver.until_logged("the journal goes to the bucket", 60)
        file, numbers = self.site.root / "lines", itertools.count()

        def is_asked_again():
            """Each batch is a piece, which is signed with the keys of now."""
            with open(file, "a", encoding="utf-8") as lines:
                lines.write(f'{{"name":"e{next(numbers)}"}}\n')
            succeed(
                "agent", "--name", "x", "--state", self.site.root / "agent", "--to", self.site.address, "--glob", file,
                "--env", "prod", "--bundle", "b", "--once", timeout=120)
            return source.asked > 1

        until(is_asked_again, 60, "the keys are replaced")
        self.assertEqual(receiver.stop(), 0)
        for secret in (SECRET, TOKEN, PERMIT):
            self.assertNotIn(secret, receiver.log())
