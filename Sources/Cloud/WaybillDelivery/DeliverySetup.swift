/// The deliveries of one process: the section `deliver` of a configuration file.
package struct DeliverySetup: Sendable {
    /// One entry of `deliveries`.
    package struct Entry: Hashable, Sendable {
        package let name: String
        package var delivery: DeliveryConfiguration
        /// A file of `NAME=value` lines; `nil` for the environment's variables.
        package let credentialsFile: String?
        /// The timeout of a request.
        package let timeout: Duration
        /// The longest wait before a provider that refused everything is tried again.
        package let retryLongest: Duration

        package init(
            name: String, delivery: DeliveryConfiguration, credentialsFile: String?, timeout: Duration,
            retryLongest: Duration
        ) {
            self.name = name
            self.delivery = delivery
            self.credentialsFile = credentialsFile
            self.timeout = timeout
            self.retryLongest = retryLongest
        }
    }

    package let data: String
    package let entries: [Entry]

    package init(data: String, entries: [Entry]) {
        self.data = data
        self.entries = entries
    }
}
