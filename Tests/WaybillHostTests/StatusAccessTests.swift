import Testing
import WaybillHost
import WaybillSystem

@Suite struct StatusAccessTests {
    private static let token = Secret("0123456789abcdef")

    /// Why a request is refused; `nil` if it is not.
    private func refusal(
        token: Secret? = nil, isLoopback: Bool = true, hosts: [String] = ["127.0.0.1:4391"],
        _ authorizations: [String] = []
    ) -> StatusAccess.Refusal? {
        do throws(StatusAccess.Refusal) {
            try StatusAccess(token: StatusToken(token)).check(
                isLoopback: isLoopback, hosts: hosts, authorizations: authorizations)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a replaced token counts from the next request on`() throws {
        let token = StatusToken(Self.token)
        let access = StatusAccess(token: token)
        token.current = Secret("fedcba9876543210")
        try access.check(isLoopback: false, hosts: [], authorizations: ["Bearer fedcba9876543210"])
        #expect(throws: StatusAccess.Refusal.token) {
            try access.check(isLoopback: false, hosts: [], authorizations: ["Bearer 0123456789abcdef"])
        }
    }

    @Test func `this machine is told under its own names, with or without a token`() {
        for token in [nil, Self.token] {
            #expect(self.refusal(token: token) == nil)
            #expect(self.refusal(token: token, hosts: ["localhost"]) == nil)
            // HTTP/1.0 has no host.
            #expect(self.refusal(token: token, hosts: []) == nil)
        }
    }

    @Test func `a page of another site has its own name, and gets nothing`() {
        #expect(self.refusal(hosts: ["evil.example"]) == .elsewhere)
        #expect(self.refusal(hosts: ["localhost", "evil.example"]) == .elsewhere)
        #expect(self.refusal(token: Self.token, hosts: ["evil.example"]) == .token)
    }

    @Test func `another machine needs the token`() {
        #expect(self.refusal(isLoopback: false) == .elsewhere)
        #expect(self.refusal(isLoopback: false, ["Bearer 0123456789abcdef"]) == .elsewhere)
        for header in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            #expect(self.refusal(token: Self.token, isLoopback: false, hosts: ["collector"], [header]) == nil)
        }
        for headers in [
            [], ["Bearer"], ["Bearer "], ["0123456789abcdef"], ["Basic 0123456789abcdef"], ["Bearer 0123456789abcdeg"],
            ["Bearer 0123456789abcdef0"], ["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"],
        ] {
            #expect(self.refusal(token: Self.token, isLoopback: false, headers) == .token, "\(headers)")
        }
    }
}
