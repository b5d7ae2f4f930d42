#if Hummingbird
    public import Waybill

    /// A request that was answered.
    public struct RequestHandled: Event {
        /// The event's name, from ``VisitorOptions/eventName``.
        public let name: String
        /// The method; "_OTHER" for an unusual one, whose text the client chose.
        public let method: String
        /// The route's template, such as "/products/{id}"; `nil` if no route matched.
        public let route: String?
        /// The status of the response.
        public let status: Int
        /// How long the response took until its body began.
        public let durationMilliseconds: Int

        /// Adds the fields; none of them is text that the visitor chose.
        public func encode(into fields: inout Fields) {
            fields.put("method", self.method)
            fields.put("route", self.route)
            fields.put("status", self.status)
            fields.put("duration_ms", self.durationMilliseconds)
        }

        /// The methods of RFC 9110 and RFC 5789; OpenTelemetry's name for all others.
        static func method(_ name: String) -> String {
            let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
            return known.contains(name) ? name : "_OTHER"
        }
    }
#endif
