internal import WaybillSystem

/// Why a call failed; never has a secret in it.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A closed set, for metrics and decisions.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// No answer in time. The request may have been done.
        case unreachable
        /// The store answered that it cannot now, for as long as retries allow.
        case busy
        /// The credentials do not allow it.
        case forbidden
        /// No credentials were found, or the store does not know them.
        case credentials
        case noBucket = "no-bucket"
        /// The bucket is in another region, and the store does not say in which.
        case region
        /// This host's clock and the store's differ by too much.
        case clock
        /// An answer that does not make sense, or content that is not what was written.
        case damaged
        /// The file to write could not be read here.
        case disk
        /// The store overwrites what it must refuse to overwrite.
        case unsafe
        /// The store does not have this function.
        case notAllowedHere = "not-allowed-here"
        /// More bytes than the limit.
        case tooLarge = "too-large"
        /// The configuration of the store is wrong.
        case configuration
        /// The client was shut down.
        case stopped
        /// The store refused the request for another reason.
        case refused
    }

    package let kind: Kind
    /// The store's own code, or the system's; at most 64 letters, digits, `.`, `-` and `_`.
    package let code: String
    /// The HTTP status.
    package let status: Int?
    package let detail: String
    package let remedy: String

    /// - Parameter remedy: what an operator can do; `nil` for the kind's own.
    package init(_ kind: Kind, code: String? = nil, status: Int? = nil, detail: String, remedy: String? = nil) {
        self.kind = kind
        self.code = Self.word(code ?? kind.rawValue)
        self.status = status
        self.detail = detail
        self.remedy = remedy ?? kind.remedy
    }

    private static func word(_ text: String) -> String {
        String(decoding: text.utf8.filter(\.isNameByte).prefix(64), as: UTF8.self)
    }

    package var description: String {
        let status = self.status.map { ", HTTP \($0)" } ?? ""
        return "\(self.detail) (\(self.code)\(status)); \(self.remedy)"
    }
}

extension StoreError.Kind {
    /// What an operator can do.
    package var remedy: String {
        switch self {
        case .unreachable: "check the endpoint, the network and the proxy"
        case .busy: "try again later; if it lasts, look at the store"
        case .forbidden: "allow it in the policy of these credentials (Documentation/fleet.md)"
        case .credentials:
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role (Documentation/fleet.md)"
        case .noBucket: "create the bucket, or correct the URL of the store"
        case .region: "set store.region to the bucket's region"
        case .clock: "set this host's clock (NTP)"
        case .damaged: "check that the endpoint is an S3 store"
        case .disk: "check the file and its disk"
        case .unsafe: "use a store that honours If-None-Match: *"
        case .notAllowedHere: "use a store that has this function"
        case .tooLarge: "read it in ranges"
        case .configuration: "correct the section store of the configuration file"
        case .stopped: "none is needed: the program is ending"
        case .refused: "see what the store says"
        }
    }
}

/// A failure that an ``ObjectStore`` may be the cause of.
package protocol StoreFailure: Error {
    static func store(_ error: StoreError) -> Self
}

extension StoreFailure {
    /// What `body` returns; its error as one of this type.
    package static func inStore<Answer>(
        _ body: @autoclosure () throws(StoreError) -> Answer
    ) throws(Self) -> Answer {
        do throws(StoreError) {
            return try body()
        } catch {
            throw .store(error)
        }
    }
}
