internal import NIOCore
internal import NIOHTTP1
internal import WaybillIngest
internal import WaybillJSON

/// What libraries and pages ask before they send.
extension DoorHandler {
    func answer(settingsOf key: String, _ request: Request, _ context: ChannelHandlerContext) {
        let head = request.head
        let host = head.headers.first(name: "host") ?? ""
        let text = JSONWriter.object { json in
            json.member("integrations") { json in
                json.member("Segment.io") { json in
                    json.member("apiKey", key)
                    json.member("apiHost", host + "/v1")
                }
            }
            json.member("plan") { _ in }
        }
        self.write(200, text, head, context)
    }

    /// A page asks whether it may send; which key it has is not known yet.
    func preflight(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        self.discard()
        var headers = [("Access-Control-Allow-Methods", "GET, POST"), ("Access-Control-Max-Age", "86400")]
        if let asked = head.headers.first(name: "access-control-request-headers"), asked.utf8.count <= 1024 {
            headers.append(("Access-Control-Allow-Headers", asked))
        }
        self.write(204, nil, head, context, headers)
    }
}

/// A request's path, and the query behind it.
struct RequestTarget {
    let path: Substring
    let query: Substring

    /// - Parameter target: a path, or a whole address, as clients of proxies send it (RFC 9112, 3.2.2).
    init(_ target: String) {
        var path = target[...]
        if !target.hasPrefix("/"),
            let scheme = ["http://", "https://"].first(where: { target.lowercased().hasPrefix($0) })
        {
            let host = target.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" }
            path = target[host.endIndex...]
        }
        let parts = path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.path = parts.first.flatMap { $0.isEmpty ? nil : $0 } ?? "/"
        self.query = parts.count == 2 ? parts[1] : ""
    }

    static let hostText = JSONWriter.object { $0.member("error", "a request has one header Host (RFC 9112, 3.2)") }
}

extension HTTPRequestHead {
    /// Whether the host is named once; HTTP/1.0 need not name it (RFC 9112, 3.2).
    var hasOneHost: Bool {
        let count = self.headers.count { $0.name.utf8.count == 4 && $0.name.lowercased() == "host" }
        return count == 1 || count == 0 && self.version == .http1_0
    }
}
