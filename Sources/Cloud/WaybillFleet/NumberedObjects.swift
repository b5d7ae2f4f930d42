internal import WaybillProtocol
internal import WaybillSystem

/// Objects whose names are numbers of 20 digits: the last one is found in a few requests, however many there are.
///
///     list behind a guess ─▶ something: guess twice as far    ─▶ nothing: halve
///
/// A bucket lists a thousand keys at a time, from any key on, and nothing tells it to begin at the end.
struct NumberedObjects {
    let store: any ObjectStore
    /// What the keys begin with; the numbers follow.
    let prefix: String
    let suffix: String
    /// What a listing is asked for: the prefix, or more of it.
    let listed: String

    init(_ store: any ObjectStore, prefix: String, suffix: String, listed: String? = nil) {
        self.store = store
        self.prefix = prefix
        self.suffix = suffix
        self.listed = listed ?? prefix
    }

    /// No one writes larger ones; to those that are found one can be added.
    private static var numberMax: Int { Int(LineProtocol.integerMax) }

    struct Found: Hashable {
        let number: Int
        let object: ObjectListing.Object
    }

    /// A listing, as far as it has such objects.
    struct Page {
        let objects: [Found]
        let hasMore: Bool
    }

    func key(_ number: Int) -> String {
        self.prefix + ZeroPadded.text(number, digitCount: 20) + self.suffix
    }

    private func number(of key: String) -> Int? {
        guard key.utf8.count == self.prefix.utf8.count + 20 + self.suffix.utf8.count, key.hasPrefix(self.prefix),
            key.hasSuffix(self.suffix)
        else { return nil }
        let number = Int(key.dropFirst(self.prefix.utf8.count).dropLast(self.suffix.utf8.count))
        return number.flatMap { (0...Self.numberMax).contains($0) ? $0 : nil }
    }

    /// An object of a listing; `nil` if its name is none of these.
    func found(_ object: ObjectListing.Object) -> Found? {
        self.number(of: object.key).map { Found(number: $0, object: object) }
    }

    /// The first objects from a number on.
    func page(from number: Int) throws(StoreError) -> Page {
        let after = number > 0 ? self.key(number - 1) : nil
        let listing = try self.store.list(self.listed, after: after, isFolded: false)
        let found = listing.objects.compactMap(self.found)
        // Behind what is none of these there is none of these.
        return Page(objects: found, hasMore: listing.next != nil && found.count == listing.objects.count)
    }

    /// The last object; `nil` if there is none from `number` on.
    func last(from number: Int = 0) throws(StoreError) -> Found? {
        let page = try self.page(from: number)
        return try self.last(of: page)
    }

    /// The last object, of which a page has the first ones.
    func last(of page: Page) throws(StoreError) -> Found? {
        guard let first = page.objects.first, var last = page.objects.last else { return nil }
        guard page.hasMore else { return last }
        // Something lies behind `last`, and nothing from `limit` on.
        var limit = Int.max
        var step = max(1, last.number - first.number)
        while last.number + 1 < limit {
            let guess: Int
            if limit == .max {
                guess = last.number.addingReportingOverflow(step).overflow ? .max - 1 : last.number + step
            } else {
                guess = last.number + 1 + (limit - last.number - 1) / 2
            }
            let next = try self.page(from: guess)
            if let found = next.objects.last {
                last = found
                guard next.hasMore else { return last }
                step = step.multipliedReportingOverflow(by: 4).overflow ? .max / 2 : step * 4
            } else {
                limit = guess
            }
        }
        return last
    }
}
