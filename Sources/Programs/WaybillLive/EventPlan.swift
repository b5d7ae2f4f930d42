internal import WaybillExport
internal import WaybillJSON

/// Which events a test of an app expects, and which must not come: the plan of `waybill live --dev --expect`.
///
///     {
///       "expect": [
///         {"name": "purchase", "count": 1, "members": {"data.currency": "KRW", "data.value": {"type": "number"}},
///          "providers": {"ga4": "exported"}},
///         {"name": "screen_view", "count": {"min": 1, "max": 3}, "members": {"screen": "Cart"}}
///       ],
///       "never": [{"name": "debug_dump"}],
///       "settle_seconds": 2
///     }
///
/// An event matches an entry if it has its name, all its members, and all its outcomes at providers. It may match several
/// entries, and counts for each.
///
/// - SeeAlso: `Protocol/plan.schema.json`.
package struct EventPlan: Sendable, Equatable {
    /// What a member of an event must be.
    enum Wanted: Sendable, Equatable {
        case type(MemberType)
        /// A string, number, boolean or null; a string without its quotes and escapes, anything else as it is written.
        case value(type: MemberType, text: String)
    }

    /// The types of members, with the words of the catalogue of names.
    enum MemberType: String, Sendable, CaseIterable {
        case string, integer, number, boolean, array, object, null

        /// Whether a value of another type is also of this one.
        func includes(_ other: String) -> Bool {
            self.rawValue == other || (self == .number && other == MemberType.integer.rawValue)
        }
    }

    /// One member that an event must have.
    struct Member: Sendable, Equatable {
        /// As in the plan: `data.currency`.
        let name: String
        let wanted: Wanted

        var path: [String] { self.name.split(separator: ".").map(String.init) }
    }

    /// What a provider must make of an event.
    struct ProviderEntry: Sendable, Equatable {
        let provider: String
        let outcome: ProviderOutcome.Kind
    }

    /// What an event must be like.
    struct Pattern: Sendable, Equatable {
        var name = ""
        var members: [Member] = []
        var providers: [ProviderEntry] = []
    }

    /// An event that must come.
    struct Expectation: Sendable, Equatable {
        var pattern = Pattern()
        /// 0 for one that may come.
        var countMin = 1
        var countMax: Int?
    }

    var expectations: [Expectation] = []
    var never: [Pattern] = []
    /// How long events that would break the plan are awaited after everything has come.
    package var settle = Duration.seconds(2)

    /// Whether an event that comes when everything has come can still break the plan.
    package var canBreak: Bool { !self.never.isEmpty || self.expectations.contains { $0.countMax != nil } }

    package static let byteCountMax = 1 << 20
    static let entryCountMax = 1000
    static let memberCountMax = 50
    static let countMax = 1_000_000
    static let settleSecondsMax = 600

    /// Why a text is not a plan, and where.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        /// Both are counted from 1, columns in characters.
        package let line: Int
        package let column: Int
        package let text: String

        package var description: String { "\(self.line):\(self.column): \(self.text)" }
    }

    /// Reads a plan.
    ///
    /// - Parameter providers: those whose outcomes are known.
    package init(_ bytes: [UInt8], providers: [String]) throws(Failure) {
        self = try PlanReader(bytes: bytes, providers: providers).read()
    }

    init() {}
}
