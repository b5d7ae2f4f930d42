import ArgumentParser
import WaybillFleet
import WaybillJSON
import WaybillSystem

/// What operators do with a fleet's bucket.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Prepare, check and list a fleet's bucket.",
        discussion: """
            Examples:
              waybill store init --store s3://example-events/waybill
              waybill store check --config /etc/waybill/waybill.yaml
              waybill store ls --store s3://example-events/waybill

            Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from AWS's shared files, or
            from the role of the machine or container; none is an option.
            """,
        subcommands: [StoreInitCommand.self, StoreCheckCommand.self, StoreListCommand.self])
}

struct StoreInitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create the file that names the fleet, unless the bucket has one.")

    @OptionGroup var bucket: BucketOptions

    @Option(
        help:
            "Seal days where the receivers' time passes a multiple of so many seconds (1 to 86400); fixed for the fleet."
    )
    var sealSeconds = FleetFile.sealSecondsUsual

    @Flag(help: "Print one line of JSON.")
    var json = false

    func validate() throws {
        guard FleetFile.sealSecondsRange.contains(self.sealSeconds) else {
            throw ValidationError("--seal-seconds is a number from 1 to 86400")
        }
    }

    func run() throws {
        try NetworkClient.own.require()
        let location = try self.bucket.location()
        let open = try NetworkClient.open(location, .brief())
        defer { open.close() }
        do {
            let random = try SystemRandom.secretBytes(count: 16)
            let (file, isNew) = try FleetFile.create(
                in: open.store, random: random, sealSeconds: self.sealSeconds)
            if self.json {
                print(
                    JSONWriter.line { json in
                        json.member("store", location.text)
                        json.member("fleet", file.fleet)
                        json.member("level", file.level)
                        json.member("created", isNew)
                    })
            } else {
                print(
                    "\(location.text): fleet \(file.fleet), level \(file.level)\(isNew ? "" : " (it was there before)")"
                )
            }
        } catch let error as StoreError {
            throw NetworkClient.ending(error)
        }
    }
}

struct StoreCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Try what a fleet needs of a bucket: rights, conditional writes, listings, the clock.",
        discussion: """
            It writes two objects below probe/, and deletes them if it may. A store that overwrites an object which a
            conditional PUT must keep is unsafe: exit code 78. With --config it also compares agents: with the other
            receivers', and refuses to have none among those that have it; and it looks for another receiver of the name.
            """)

    @OptionGroup var bucket: BucketOptions

    @Flag(help: "Print one line of JSON.")
    var json = false

    func run() throws {
        try NetworkClient.own.require()
        let location = try self.bucket.location()
        let open = try NetworkClient.open(location, .brief(connectionCount: StoreProbe.racerCount))
        defer { open.close() }
        let id = Hexadecimal.text(SystemRandom.seed(), digitCount: 16)
        var probe = StoreProbe(open.store, clock: POSIXClock(), id: id)
        probe.run(race: Self.race)
        if probe.failure == nil, let config = self.bucket.config {
            probe.findings += Self.findings(
                of: try ConfigurationFile.load(config).receiver, in: open.store, now: POSIXClock().wallTime())
        }
        if self.json {
            self.printJSON(probe, location)
        } else {
            print("\(location.text), credentials from \(open.credentialText())")
            for finding in probe.findings {
                let name = TerminalText.padded(finding.name, to: 21, isNumber: false)
                print("  \(Self.mark(finding.outcome))  \(name)\(TerminalText.escaped(finding.detail))")
            }
        }
        if let error = probe.failure { throw NetworkClient.ending(error) }
    }

    /// Calls it for each number, at once.
    static func race(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
        let workers = (0..<count).map { number in Worker(name: "probe-\(number)") { body(number) } }
        for worker in workers { worker.join() }
    }

    private static func mark(_ outcome: StoreProbe.Finding.Outcome) -> String {
        switch outcome {
        case .good: "good"
        case .warned: "note"
        case .bad: "BAD "
        }
    }

    private func printJSON(_ probe: StoreProbe, _ location: StoreLocation) {
        print(
            JSONWriter.line { json in
                json.member("store", location.text)
                json.member("good", probe.failure == nil)
                json.member("findings", objects: probe.findings) { json, finding in
                    json.member("name", finding.name)
                    json.member("outcome", finding.outcome.rawValue)
                    json.member("detail", finding.detail)
                    json.member("error", finding.error.map(\.kind.rawValue))
                }
            })
    }
}

struct StoreListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ls",
        abstract: "Show what a bucket has: the fleet, and each receiver's chain; or the objects below a key.",
        discussion: """
            Examples:
              waybill store ls --store s3://example-events/waybill
              waybill store ls --store s3://example-events/waybill journal/
            """)

    @OptionGroup var bucket: BucketOptions

    @Flag(help: "Print one line of JSON for each row.")
    var json = false

    @Argument(help: "List the objects whose keys begin with this.")
    var prefix: String?

    func run() throws {
        try NetworkClient.own.require()
        let location = try self.bucket.location()
        let open = try NetworkClient.open(location, .brief())
        defer { open.close() }
        do throws(StoreError) {
            if let prefix {
                try self.list(prefix, of: open.store)
            } else {
                try self.summarise(open.store, location)
            }
        } catch {
            throw NetworkClient.ending(error)
        }
    }

    private func list(_ prefix: String, of store: any ObjectStore) throws(StoreError) {
        var pages = ListingPages(store, prefix, isFolded: false)
        while let page = try pages.next() {
            for object in page.objects {
                if self.json {
                    print(
                        JSONWriter.line { json in
                            json.member("key", object.key)
                            json.member("bytes", object.byteCount)
                            json.member("modified", object.modified.text)
                        })
                } else {
                    let size = TerminalText.padded("\(object.byteCount)", to: 12, isNumber: true)
                    print("\(size)  \(object.modified.text)  \(TerminalText.escaped(object.key))")
                }
            }
        }
    }

    private func summarise(_ store: any ObjectStore, _ location: StoreLocation) throws(StoreError) {
        let fleet = try FleetFile.read(from: store)
        if self.json {
            print(
                JSONWriter.line { json in
                    json.member("store", location.text)
                    json.member("fleet", fleet?.fleet)
                    json.member("level", fleet?.level)
                })
        } else if let fleet {
            print("\(location.text): fleet \(fleet.fleet), level \(fleet.level)")
        } else {
            print("\(location.text): no fleet yet; waybill store init names one")
        }
        let chains = try StoreChain.all(in: store)
        let now = POSIXClock().wallTime()
        if !self.json, !chains.isEmpty { print("    pieces         bytes                   end     age  chain") }
        for chain in chains {
            if self.json {
                print(
                    JSONWriter.line { json in
                        json.member("chain", chain.name)
                        json.member("pieces", chain.pieceCount)
                        json.member("bytes", chain.byteCount)
                        json.member("last", chain.last)
                        json.member("modified", chain.modified.text)
                    })
            } else {
                let age = max(0, now.milliseconds - chain.modified.milliseconds) / 1000
                let cells = [
                    ("\(chain.pieceCount)", 10), ("\(chain.byteCount)", 12), (chain.last, 20), ("\(age) s", 6),
                ]
                let row = cells.map { TerminalText.padded($0.0, to: $0.1, isNumber: true) }.joined(separator: "  ")
                print("\(row)  \(TerminalText.escaped(chain.name))")
            }
        }
    }
}

/// The pieces of one receiver's journal, as a listing has them.
struct StoreChain: Hashable {
    let name: String
    var pieceCount = 0
    var byteCount = 0
    /// The position in the name of the last piece.
    var last = "-"
    var modified = WallTime.unknown

    private static let folder = "journal/"
    private static let suffix = ".wbj"

    static func all(in store: any ObjectStore) throws(StoreError) -> [StoreChain] {
        var chains: [StoreChain] = []
        var pages = ListingPages(store, Self.folder, isFolded: true)
        while let page = try pages.next() {
            for folder in page.folders { chains.append(try Self.chain(folder, in: store)) }
        }
        return chains
    }

    private static func chain(_ folder: String, in store: any ObjectStore) throws(StoreError) -> StoreChain {
        var chain = StoreChain(name: String(folder.dropFirst(Self.folder.count).dropLast()))
        var pages = ListingPages(store, folder, isFolded: false)
        while let page = try pages.next() {
            for object in page.objects where object.key.hasSuffix(Self.suffix) {
                chain.pieceCount += 1
                chain.byteCount += object.byteCount
                chain.last = String(object.key.dropFirst(folder.count).dropLast(Self.suffix.count))
                chain.modified = max(chain.modified, object.modified)
            }
        }
        return chain
    }
}

extension JSONWriter {
    /// One object as a text without a line end.
    static func line(_ write: (inout JSONWriter) -> Void) -> String {
        String(decoding: Self.object(write), as: UTF8.self)
    }
}
