package import WaybillSystem

/// What a store answered.
package struct StoreAnswer: Hashable, Sendable {
    package let status: Int
    package let headers: [StoreRequest.Field]
    package let body: [UInt8]

    /// The longest error, and the longest answer of STS and of credential addresses.
    package static let errorByteCountMax = 64 << 10
    /// The longest page: 1000 keys of 1024 bytes, each byte of which may be written as three, with their elements.
    package static let pageByteCountMax = 8 << 20

    package init(status: Int, headers: [StoreRequest.Field] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    package func header(_ name: String) -> String? {
        self.headers.first { $0.name.lowercased() == name }?.value
    }

    /// The code and the words of an error; HEAD has neither.
    var problem: (code: String?, message: String?, region: String?) {
        guard self.body.count <= Self.errorByteCountMax, let root = XMLElement.parse(self.body) else {
            return (nil, nil, self.header("x-amz-bucket-region"))
        }
        // STS wraps it once more.
        let error = root.name == "Error" ? root : root.first("Error") ?? root
        return (
            error.text(of: "Code"), error.text(of: "Message").map(Self.printable),
            self.header("x-amz-bucket-region") ?? error.text(of: "Region")
        )
    }

    /// At most 200 characters, without control characters: it goes to logs and terminals.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.filter { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
        )
        .prefix(200).description
    }

    package func status(of key: String) throws(StoreError) -> ObjectStatus {
        guard let count = self.header("content-length").flatMap(Int.init), count >= 0 else {
            throw StoreError(.damaged, code: "length", detail: "the store does not say how long \(key) is")
        }
        let modified = self.header("last-modified").flatMap { HTTPDate.time($0) }
        return ObjectStatus(byteCount: count, modified: modified ?? .unknown, entityTag: self.header("etag") ?? "")
    }

    /// A page of `ListObjectsV2` with `encoding-type=url`.
    ///
    /// - Parameters:
    ///   - prefix: of the whole bucket, what keys are cut by.
    ///   - after: what the request said.
    package func listing(prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        guard let root = XMLElement.parse(self.body), root.name == "ListBucketResult" else {
            throw StoreError(.damaged, code: "listing", detail: "the answer is not a listing")
        }
        let isEncoded = root.text(of: "EncodingType") == "url"
        func key(_ text: String?) throws(StoreError) -> String {
            guard let text, let key = isEncoded ? URIText.decode(text) : text, key.utf8.starts(with: prefix.utf8) else {
                throw StoreError(.damaged, code: "listing", detail: "the listing has a key of another prefix")
            }
            return String(decoding: key.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
        }
        var (objects, folders): ([ObjectListing.Object], [String]) = ([], [])
        for element in root.children where element.name == "Contents" {
            guard let count = element.text(of: "Size").flatMap(Int.init), count >= 0 else {
                throw StoreError(.damaged, code: "listing", detail: "the listing has an object without a size")
            }
            let modified = element.text(of: "LastModified").flatMap { HTTPDate.timestamp($0) } ?? .unknown
            objects.append(.init(key: try key(element.text(of: "Key")), byteCount: count, modified: modified))
        }
        if isFolded {
            for element in root.children where element.name == "CommonPrefixes" {
                folders.append(try key(element.text(of: "Prefix")))
            }
        }
        guard Self.isAscending(objects.map(\.key)), Self.isAscending(folders) else {
            throw StoreError(.damaged, code: "order", detail: "the listing is not in the order of the keys")
        }
        let last = [objects.last?.key, folders.last].compactMap { $0 }.max {
            $0.utf8.lexicographicallyPrecedes($1.utf8)
        }
        let isTruncated = root.text(of: "IsTruncated") == "true"
        let isProgress =
            last.map { last in after.map { $0.utf8.lexicographicallyPrecedes(last.utf8) } ?? true } ?? false
        guard !isTruncated || isProgress else {
            throw StoreError(.damaged, code: "listing", detail: "the listing does not advance")
        }
        return ObjectListing(objects: objects, folders: folders, next: isTruncated ? last : nil)
    }

    private static func isAscending(_ keys: [String]) -> Bool {
        zip(keys, keys.dropFirst()).allSatisfy { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}

/// Dates of HTTP (RFC 9110, section 5.6.7, the preferred form) and of S3's XML.
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// A clock that shows another year is none.
    private static let years = 1970...2199

    /// Reads a date of a header, as in `Fri, 20 Nov 2026 09:15:00 GMT`.
    package static func time(_ text: String) -> WallTime? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = Self.months.firstIndex(of: String(words[2])),
            let year = Int(words[3]), Self.years.contains(year), let day = Int(words[1]),
            let date = CalendarDay(year: year, month: month + 1, day: day)
        else { return nil }
        return WallTime(text: "\(date)T\(words[4]).000Z")
    }

    /// Reads a time of XML, as in `2026-11-20T09:15:00Z`, with or without a fraction of any length.
    package static func timestamp(_ text: String) -> WallTime? {
        guard text.hasSuffix("Z"), text.utf8.count >= 20 else { return nil }
        let fraction = text.dropFirst(19).dropLast()
        guard fraction.isEmpty || fraction.hasPrefix(".") && fraction.dropFirst().allSatisfy(\.isASCII) else {
            return nil
        }
        let digits = (fraction.dropFirst() + "000").prefix(3)
        return WallTime(text: "\(text.prefix(19)).\(digits)Z")
    }

    /// `Retry-After`: seconds or a date; at most an hour.
    static func wait(_ text: String, now: WallTime) -> Duration? {
        if let seconds = Int64(text), seconds >= 0 { return .seconds(min(seconds, 3600)) }
        return Self.time(text).map {
            .milliseconds(min(max(0, $0.milliseconds.saturatingSum(-now.milliseconds)), 3_600_000))
        }
    }
}
