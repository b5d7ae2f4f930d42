package import WaybillSystem

/// Tries what a fleet needs of a store: rights, one winner of conditional writes, listings, the clock, the delay.
///
/// It writes below `probe/` and deletes what it wrote where it may; a receiver's policy has no delete.
package struct StoreProbe: Sendable {
    /// One thing that was tried.
    package struct Finding: Hashable, Sendable {
        package enum Outcome: String, Hashable, Sendable {
            case good
            /// It works, with a restriction that the detail names.
            case warned
            case bad
        }

        package let name: String
        package let outcome: Outcome
        package let detail: String
        /// Why it is bad.
        package var error: StoreError?

        package init(name: String, outcome: Outcome, detail: String, error: StoreError? = nil) {
            self.name = name
            self.outcome = outcome
            self.detail = detail
            self.error = error
        }
    }

    /// What was found, here or by who else asked the store.
    package var findings: [Finding] = []
    /// How long each conditional write of the race took, sorted.
    package private(set) var writeTimes: [Duration] = []

    /// The first thing that is bad, which decides the program's exit code: an unsafe store before all.
    package var failure: StoreError? {
        let errors = self.findings.compactMap { $0.outcome == .bad ? $0.error : nil }
        return errors.first { $0.kind == .unsafe } ?? errors.first
    }

    package static let racerCount = 8
    private static let skewWarned = Duration.seconds(60)

    private let store: any ObjectStore
    private let clock: any SystemClock
    /// Below it, nothing was written before.
    private let folder: String

    /// - Parameter id: random letters; two probes do not meet.
    package init(_ store: any ObjectStore, clock: any SystemClock, id: String) {
        self.store = store
        self.clock = clock
        self.folder = "probe/\(id)/"
    }

    /// - Parameter race: calls its closure for each number below its first argument, at once where there are threads.
    package mutating func run(race: (Int, @escaping @Sendable (Int) -> Void) -> Void) {
        guard self.trySequence() else { return }
        self.tryRace(race)
        self.tryRead()
        self.tryList()
        self.tryClock()
        self.tryDelete()
    }

    private mutating func add(_ name: String, _ outcome: Finding.Outcome, _ detail: String, _ error: StoreError? = nil)
    {
        self.findings.append(Finding(name: name, outcome: outcome, detail: detail, error: error))
    }

    private mutating func add(_ name: String, _ error: StoreError) {
        self.add(name, .bad, error.description, error)
    }

    private mutating func addUnsafe(_ name: String, _ detail: String) {
        self.add(name, StoreError(.unsafe, detail: detail))
    }

    private func key(_ name: String) -> String { self.folder + name }

    /// - Returns: whether it makes sense to try more.
    private mutating func trySequence() -> Bool {
        let (first, second) = (Array("first".utf8), Array("second".utf8))
        do throws(StoreError) {
            let start = self.clock.monotonicTime()
            let creation = try self.store.create(self.key("a=b"), ObjectBody(first))
            let time = self.clock.monotonicTime() - start
            // A creation whose answer was lost is made again, and then finds its own bytes.
            let present = creation == .created ? first : try self.store.read(self.key("a=b"), nil)
            guard present == first else {
                self.addUnsafe("write", "a new key was refused as written before")
                return false
            }
            self.add("write", .good, "PUT in \(Self.text(time))")
            let again = try self.store.create(self.key("a=b"), ObjectBody(second))
            let content = try self.store.read(self.key("a=b"), nil)
            guard again == .present, content == first else {
                self.addUnsafe("one after the other", "a second conditional PUT of one key was not refused")
                return true
            }
            self.add("one after the other", .good, "the second PUT of one key is refused")
            return true
        } catch {
            self.add("write", error)
            return false
        }
    }

    private mutating func tryRace(_ race: (Int, @escaping @Sendable (Int) -> Void) -> Void) {
        let (store, clock, key) = (self.store, self.clock, self.key("race"))
        let results = Lock([Int: (Result<Creation, StoreError>, Duration)]())
        race(Self.racerCount) { number in
            let start = clock.monotonicTime()
            let result: Result<Creation, StoreError>
            do throws(StoreError) {
                result = .success(try store.create(key, ObjectBody(Self.content(of: number))))
            } catch {
                result = .failure(error)
            }
            let time = clock.monotonicTime() - start
            results.withLock { $0[number] = (result, time) }
        }
        let all = results.withLock { $0 }
        self.writeTimes = all.values.map(\.1).sorted()
        let name = "\(Self.racerCount) at once"
        for number in all.keys.sorted() {
            if case .failure(let error)? = all[number]?.0 { return self.add(name, error) }
        }
        let winners = all.filter { $0.value.0 == .success(.created) }.keys.sorted()
        do throws(StoreError) {
            let content = try self.store.read(key, nil)
            // A winner whose answer was lost is told that its key is present: none, with the content of one, is fine.
            let isOne = winners.count <= 1 && (0..<Self.racerCount).contains { Self.content(of: $0) == content }
            guard isOne, winners.first.map({ Self.content(of: $0) == content }) ?? true else {
                return self.addUnsafe(
                    name, "\(winners.count) of \(Self.racerCount) conditional PUTs of one key succeeded")
            }
            self.add(name, .good, "one winner, in \(Self.text(self.writeTimes.last ?? .zero)) at most")
        } catch {
            self.add(name, error)
        }
    }

    private static func content(of number: Int) -> [UInt8] { Array("racer \(number)".utf8) }

    private mutating func tryRead() {
        do throws(StoreError) {
            let part = try self.store.read(self.key("a=b"), 1..<4)
            let absent = try self.store.read(self.key("absent"), nil)
            guard part == Array("irs".utf8), absent == nil else {
                return self.add("read", StoreError(.damaged, detail: "a GET gave something else than was written"))
            }
            self.add("read", .good, "GET of a range, and of a key that is absent")
        } catch {
            // Without the right to list, S3 answers 403 for an absent key.
            let hint =
                error.kind == .forbidden ? "; allow s3:GetObject, and s3:ListBucket so that an absent key is 404" : ""
            self.add("read", .bad, error.description + hint, error)
        }
    }

    private mutating func tryList() {
        do throws(StoreError) {
            let page = try self.store.list(self.folder, after: nil, isFolded: false)
            let folded = try self.store.list("probe/", after: nil, isFolded: true)
            let keys = page.objects.map(\.key)
            guard keys == [self.key("a=b"), self.key("race")],
                folded.next != nil || folded.folders.contains(self.folder)
            else {
                return self.add("list", StoreError(.damaged, detail: "the LIST lacks what was written before it"))
            }
            self.add("list", .good, "LIST has what was written")
        } catch {
            self.add("list", error)
        }
    }

    private mutating func tryClock() {
        do throws(StoreError) {
            guard let status = try self.store.status(of: self.key("a=b")), status.modified != .unknown else {
                return self.add("clock", .warned, "the store does not say when it wrote")
            }
            let skew = Duration.milliseconds(
                self.clock.wallTime().milliseconds.saturatingSum(-status.modified.milliseconds))
            let size = skew < .zero ? .zero - skew : skew
            let text = "\(Self.text(size)) \(skew < .zero ? "behind" : "ahead of") the store at most"
            self.add(
                "clock", size > Self.skewWarned ? .warned : .good,
                size > Self.skewWarned ? "this host is \(text); set its clock (NTP)" : "this host is \(text)")
        } catch {
            self.add("clock", error)
        }
    }

    private mutating func tryDelete() {
        do throws(StoreError) {
            for name in ["a=b", "race"] { try self.store.delete(self.key(name)) }
            self.add("delete", .good, "the probe's objects are gone")
        } catch  where error.kind == .forbidden {
            self.add("delete", .warned, "not allowed, which is right for a receiver; \(self.folder) stays")
        } catch {
            self.add("delete", error)
        }
    }

    /// The time as people read it, such as `12 ms` or `1.5 s`.
    static func text(_ time: Duration) -> String {
        let milliseconds = time.nanoseconds / 1_000_000
        return milliseconds < 1000 ? "\(milliseconds) ms" : "\(milliseconds / 1000).\(milliseconds / 100 % 10) s"
    }
}
