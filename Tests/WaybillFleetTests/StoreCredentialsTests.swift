import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillFleet

@Suite struct StoreCredentialsTests {
    private static func find(
        _ variables: [String: String], files contents: [String: String] = [:]
    ) throws -> CredentialSettings {
        let files = FaultyFiles()
        try files.createDirectories("/home/.aws")
        for (path, text) in contents { try files.replace(path, with: Array(text.utf8)) }
        return try CredentialSettings.find(variables: { variables[$0] }, files: files)
    }

    private static func keyID(_ source: CredentialSource) -> String? {
        if case .fixed(let credentials, _) = source { credentials.keyID } else { nil }
    }

    private static let shared = """
        # comment
        [default]
        aws_access_key_id = AKIADEFAULT
        aws_secret_access_key=one
        [ other ]
        aws_access_key_id = AKIAOTHER
        aws_secret_access_key = two
        aws_session_token = three
        """

    @Test func `variables come before files, the profile of AWS_PROFILE before the default one`() throws {
        let keys = ["AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "zero", "HOME": "/home"]
        let files = [
            "/home/.aws/credentials": Self.shared,
            "/home/.aws/config": "[default]\nregion = eu-north-1\n[profile other]\nregion=eu-west-3\n",
        ]
        #expect(Self.keyID(try Self.find(keys, files: files).source) == "AKIAENV")
        let standard = try Self.find(["HOME": "/home"], files: files)
        #expect(Self.keyID(standard.source) == "AKIADEFAULT")
        #expect(standard.region == "eu-north-1")
        let other = try Self.find(["HOME": "/home", "AWS_PROFILE": "other"], files: files)
        #expect(Self.keyID(other.source) == "AKIAOTHER")
        #expect(other.region == "eu-west-3")
        #expect(other.source.text == "the profile other")
        #expect(try Self.find(["HOME": "/home", "AWS_REGION": "us-west-2"], files: files).region == "us-west-2")
    }

    @Test func `without keys it is a role: of a web identity, of the container, of the instance`() throws {
        let identity = try Self.find(["AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "arn:r"])
        #expect(identity.source == .webIdentity(.init(roleARN: "arn:r", tokenFile: "/t", session: "waybill")))
        let container = try Self.find(["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"])
        #expect(container.source == .container(.init(url: "http://169.254.170.2/v2/x")))
        let pod = try Self.find([
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/var/run/token",
        ])
        #expect(
            pod.source == .container(.init(url: "http://169.254.170.23/v1/credentials", tokenFile: "/var/run/token")))
        #expect(pod.source.tokenFile == "/var/run/token")
        #expect(try Self.find([:]).source == .instance)
    }

    @Test(arguments: [
        ["AWS_ACCESS_KEY_ID": "AKIA"], ["AWS_SECRET_ACCESS_KEY": "s"],
        ["AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "a\nb"], ["AWS_PROFILE": "absent"],
        ["AWS_EC2_METADATA_DISABLED": "true"],
    ])
    func `half credentials, broken ones, an absent profile and none at all are errors`(variables: [String: String]) {
        #expect { try Self.find(variables) } throws: { ($0 as? StoreError)?.kind == .credentials }
    }

    private static func answer(_ body: String, status: Int = 200) -> StoreAnswer {
        StoreAnswer(status: status, body: Array(body.utf8))
    }

    private static let json = """
        {"Code":"Success","AccessKeyId":"ASIA1","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-20T10:00:00Z"}
        """

    private static let expected = StoreCredentials(
        keyID: "ASIA1", secret: Secret("s") ?? Self.none, token: Secret("t"),
        expiry: WallTime(text: "2026-11-20T10:00:00.000Z"))

    private static var none: Secret { preconditionFailure("an empty secret") }

    @Test func `the instance is asked for a token, then for its role, then for the role's credentials`() throws {
        var fetch = CredentialFetch(.instance, region: "us-east-1", token: nil)
        guard case .send(let first) = fetch.first else {
            Issue.record("no request")
            return
        }
        #expect(first.method == .put && first.isLocal)
        guard case .send(let second) = fetch.answered(Self.answer("TOKEN")) else {
            Issue.record("no second request")
            return
        }
        #expect(second.headers == [.init("X-aws-ec2-metadata-token", "TOKEN")])
        guard case .send(let third) = fetch.answered(Self.answer("role name\nother")) else {
            // A name with a space is none.
            return
        }
        Issue.record("asked for \(third.url)")
    }

    @Test func `a role's credentials are read from JSON, with their end`() {
        var fetch = CredentialFetch(.instance, region: "us-east-1", token: nil)
        _ = fetch.answered(Self.answer("TOKEN"))
        guard case .send(let request) = fetch.answered(Self.answer("receiver\n")) else {
            Issue.record("no request")
            return
        }
        #expect(request.url.hasSuffix("/meta-data/iam/security-credentials/receiver"))
        #expect(fetch.answered(Self.answer(Self.json)) == .done(Self.expected))
    }

    @Test func `a web identity's credentials are read from the XML of STS, and the token's file must have one`() {
        let source = CredentialSource.webIdentity(
            .init(roleARN: "arn:aws:iam::1:role/r", tokenFile: "/t", session: "s"))
        var fetch = CredentialFetch(source, region: "eu-west-1", token: "JWT")
        guard case .send(let request) = fetch.first else {
            Issue.record("no request")
            return
        }
        #expect(request.url.hasPrefix("https://sts.eu-west-1.amazonaws.com/?Action=AssumeRoleWithWebIdentity&"))
        #expect(request.url.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"))
        #expect(!request.isLocal)
        let xml = """
            <AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
            <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>
            <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
            <Expiration>2026-11-20T10:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
            </AssumeRoleWithWebIdentityResponse>
            """
        #expect(fetch.answered(Self.answer(xml)) == .done(Self.expected))
        guard case .fail = CredentialFetch(source, region: "eu-west-1", token: nil).first else {
            Issue.record("no token is no request")
            return
        }
    }

    @Test(arguments: [
        "http://example.com/creds", "http://169.254.170.2.example.com/x", "http://localhost.example.com/x",
        "https://user@example.com/x", "ftp://127.0.0.1/x", "",
    ])
    func `a container's address that would show the token to others is refused`(url: String) {
        guard
            case .fail = CredentialFetch(.container(.init(url: url)), region: "", token: nil).first
        else {
            Issue.record("asked for \(url)")
            return
        }
    }

    @Test func `a container's token comes from its file, as it is now`() {
        let source = CredentialSource.container(.init(url: "http://169.254.170.23/v1/credentials", tokenFile: "/t"))
        guard case .send(let request) = CredentialFetch(source, region: "", token: "JWT").first else {
            Issue.record("asked for nothing")
            return
        }
        #expect(request.headers == [.init("Authorization", "JWT")])
        guard case .fail(let error) = CredentialFetch(source, region: "", token: nil).first else {
            Issue.record("asked without a token")
            return
        }
        #expect("\(error)".contains("the file /t has no token"))
    }

    @Test(arguments: [
        "", "{}", "[]", "{\"AccessKeyId\":\"a/b\",\"SecretAccessKey\":\"s\"}", "<x/>", "{\"AccessKeyId\":\"\u{7}\"}",
    ])
    func `answers without credentials are errors that repeat nothing of them`(body: String) {
        let source = CredentialSource.container(
            .init(url: "http://127.0.0.1:1/x", authorization: Secret("auth-token")))
        var fetch = CredentialFetch(source, region: "", token: nil)
        guard case .fail(let error) = fetch.answered(Self.answer(body)) else {
            Issue.record("took \(body)")
            return
        }
        #expect(error.kind == .credentials)
        #expect(!"\(error)".contains("auth-token"))
    }

    @Test func `credentials are replaced five minutes before their end, by one caller, while others use the old`()
        throws
    {
        let end = try #require(Self.expected.expiry)
        func time(_ minutes: Int64) -> WallTime { WallTime(milliseconds: end.milliseconds - minutes * 60_000) }
        var cache = CredentialCache()
        #expect(cache.need(at: time(60)) == .refresh)
        #expect(cache.need(at: time(60)) == .wait)
        cache.refreshed(Self.expected)
        #expect(cache.need(at: time(6)) == .use(Self.expected))
        #expect(cache.need(at: time(4)) == .refresh)
        #expect(cache.need(at: time(4)) == .use(Self.expected))
        cache.refreshFailed(at: time(4))
        #expect(cache.need(at: time(4)) == .use(Self.expected))
        #expect(cache.need(at: time(3)) == .refresh)
        cache.refreshFailed(at: time(3))
        #expect(cache.need(at: time(-1)) == .refresh)
        cache.refreshed(Self.expected)
        cache.refused(Self.expected)
        #expect(cache.need(at: time(60)) == .refresh)
    }
}
