/// What one account may take.
package struct AccountQuotas: Hashable, Sendable {
    /// Streams that it has open, and streams that it begins on a day and does not seal.
    package var streamCountMax = 100_000
    /// Connections from one address that have not said `HELLO`.
    package var silentConnectionCountMax = 1000

    package init() {}
}
