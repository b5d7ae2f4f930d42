import ArgumentParser
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillReplay
import WaybillSystem

struct EraseCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Take one person's events out of a data directory, or out of a fleet.",
        discussion: """
            Examples:
              waybill erase --data /var/lib/waybill --user u-4711 --dry-run
              waybill erase --data /var/lib/waybill --user u-4711
              waybill erase --config /etc/waybill/merge.yaml --user u-4711
              waybill erase --store s3://example-events/waybill --anon 0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b

            With --data, stop the receiver first. Archive, quarantine, exports and kept generations are written again
            without the person's lines and records, and a record in state/erasures keeps these lines out of everything
            that is read later, also of what arrives. Killed at any point, the same command completes the erasure.

            With --store or --config it asks the fleet: the request is put into the bucket, and every merger erases at the
            same place of the fleet's log, without a stop. It may be repeated.

            What the journal still holds goes with its retention. Spools and quarantines on other hosts are not reached,
            nor is what a provider received.
            """)

    @Option(help: "A receiver's data directory; with --dry-run also a merger's.")
    var data: String?

    @OptionGroup var bucket: OptionalBucketOptions

    @Option(help: "The user's id, as in the events' user.")
    var user: String?

    @Option(help: "The anonymous id, as in the events' anon.")
    var anon: String?

    @Flag(help: "Count only, and write nothing.")
    var dryRun = false

    func validate() throws {
        _ = try self.person()
        guard (self.data != nil) != self.bucket.isGiven else {
            throw ValidationError("name one place: --data DIR of a receiver, or --store or --config of a fleet")
        }
    }

    private func person() throws -> (kind: ErasedPeople.Kind, id: String) {
        switch (self.user, self.anon) {
        case (let user?, nil) where !user.isEmpty: (.user, user)
        case (nil, let anon?) where !anon.isEmpty: (.anon, anon)
        default: throw ValidationError("name one person: --user ID or --anon ID")
        }
    }

    func run() throws {
        let person = try self.person()
        guard let data else { return try self.ask(person.kind, person.id) }
        let files = POSIXFileSystem(.data, dataDirectory: data)
        do throws(Eraser<POSIXFileSystem>.Failure) {
            var eraser = Eraser(
                dataDirectory: data, person.kind, person.id, isDryRun: self.dryRun, files: files)
            let report = try eraser.run(now: POSIXClock().wallTime())
            print(report.json(isDryRun: self.dryRun))
            for sentence in report.sentences(person.kind) { Console.printError(sentence) }
        } catch {
            Console.printError("\(error)")
            switch error {
            case .disk: throw ExitCode.files
            case .data(.unusable): throw ExitCode.files
            case .data(.locked), .underWay, .delivering, .deliveryRuns: throw ExitCode.inUse
            case .noArchive, .merger, .otherKey: throw ExitCode.badInput
            }
        }
    }
}

extension Eraser.Report {
    /// One line of JSON.
    fileprivate func json(isDryRun: Bool) -> String {
        JSONWriter.text { json in
            if isDryRun { json.member("dry_run", true) }
            json.member("lines", self.lineCount)
            json.member("bytes", self.byteCount)
            json.member("days", array: self.days.sorted()) { $0.string($1.description) }
            json.member("records", self.recordCount)
            json.member("dead", self.deadCount)
            json.member("held", self.heldCount)
            json.member("generations", array: self.removedGenerations) { $0.string($1) }
            json.member("journal_lines", self.journalLineCount)
            json.member("without_id", self.withoutIDCount)
            json.member("shared_ids", self.sharedIDCount)
            json.member("unexplained_bytes", self.unexplainedByteCount)
        }
    }

    /// What the operator must know.
    fileprivate func sentences(_ kind: ErasedPeople.Kind) -> [String] {
        var sentences: [String] = []
        if self.isRepeated { sentences.append("the person was erased before") }
        if self.journalLineCount > 0 {
            sentences.append(
                "the journal still holds \(HumanText.count(self.journalLineCount, "line")) of the person; no one reads what it "
                    + "holds of them, and it goes with the journal's retention")
        }
        sentences.append(
            "spools and quarantines on agents' hosts are not reached, nor is what providers received; what agents still "
                + "send of the person is dropped")
        if !self.otherIDs.isEmpty {
            let option = kind == .user ? "--anon" : "--user"
            let ids = self.otherIDs.sorted()
            sentences.append(
                "the person's lines also had \(HumanText.count(ids.count, "other id")), and lines with "
                    + "\(ids.count == 1 ? "it" : "these") may be theirs, too: "
                    + ids.prefix(10).map { "\(option) \($0)" }.joined(separator: ", ") + (ids.count > 10 ? " …" : ""))
        }
        if self.withoutIDCount > 0 {
            sentences.append(
                "\(HumanText.count(self.withoutIDCount, "line")) of the person \(self.withoutIDCount == 1 ? "has" : "have") no id: "
                    + Self.uncertainty)
        }
        if self.sharedIDCount > 0 {
            sentences.append(
                "\(HumanText.count(self.sharedIDCount, "id")) of the person's events \(self.sharedIDCount == 1 ? "is" : "are") "
                    + "also in lines of others: " + Self.uncertainty)
        }
        if !self.setAside.isEmpty {
            let count = self.setAside.count
            sentences.append(
                "set-aside holds \(count == 1 ? "1 entry that was" : "\(count) entries that were") not read: delete what is "
                    + "no longer needed")
        }
        if self.unexplainedByteCount > 0 {
            sentences.append(
                "the origin of \(HumanText.count(self.unexplainedByteCount, "byte")) of the archive is lost, and they were kept "
                    + "unread: waybill inspect --verify names them")
        }
        return sentences
    }

    private static var uncertainty: String {
        "an export whose records do not have the person's own id either, such as csv with other columns, still has their "
            + "records; waybill replay makes its days again without them"
    }
}
