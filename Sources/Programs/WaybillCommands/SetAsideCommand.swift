import ArgumentParser
import WaybillData
import WaybillExport
import WaybillFleet
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

struct SetAsideCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set-aside",
        abstract: "Have a receiver or a fleet not read one line, because reading it ends the program.",
        discussion: """
            Examples:
              waybill set-aside --data /var/lib/waybill --stream 8f14e45fceea167a-00000000000000000001 --offset 48
              waybill set-aside --data /var/lib/waybill --stream 8f14e45f… --offset 48 --reader ga4
              waybill set-aside --config /etc/waybill/merge.yaml --stream 8f14e45f… --offset 48

            A receiver sets aside by itself what ended it twice by a fault of its own. This is for what ends it otherwise,
            as a line that fills the memory does: the log names stream and offset (WB1318). Stop the receiver first. The
            line goes to the quarantine, byte for byte, or with --reader to this export's dead letters, and the rest
            continues. After an upgrade that reads it, waybill requeue --after-version brings it back.

            With --store or --config it asks the fleet: the place is put into the bucket, and every merger leaves the line
            out of its archive, also one that it did not end and one that is restored later. Mergers need not be stopped. A
            request for a line that every merger has read does nothing.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String?

    @OptionGroup var bucket: OptionalBucketOptions

    @Option(help: "The stream of the line.")
    var stream: String

    @Option(help: "Where the line begins in its stream.")
    var offset: UInt64

    @Option(help: "The owner of the stream, where the receiver knows agents.")
    var principal = ""

    @Option(help: "Who does not read it: archive (then nothing does), exports, or the name of an export.")
    var reader = PoisonOffsets.archive

    func validate() throws {
        guard (self.data != nil) != self.bucket.isGiven else {
            throw ValidationError("name one place: --data DIR of a receiver, or --store or --config of a fleet")
        }
    }

    func run() throws {
        guard let id = StreamID(self.stream) else {
            throw ValidationError("\"\(self.stream)\" is not the id of a stream; take it from the message in the log")
        }
        if ![PoisonOffsets.archive, PoisonOffsets.exports].contains(self.reader),
            Destination(customName: self.reader) == nil
        {
            _ = try OptionReader.provider(self.reader)
        }
        let stream = StreamName(principal: self.principal, id: id)
        if let data { try self.record(stream, in: data) } else { try self.ask(stream) }
    }

    /// Puts the request into the bucket, unless it is there.
    private func ask(_ stream: StreamName) throws {
        try NetworkClient.own.require()
        let bucket = try AttachedBucket(try self.bucket.location())
        defer { bucket.open.close() }
        do {
            let answer = try SetAsideRequest.ask(
                reader: self.reader, stream, offset: self.offset, version: packageVersion,
                now: POSIXClock().wallTime(), in: bucket.open.store)
            guard let (request, isRepeated) = answer else {
                Console.printError("\(SetAsideRequest.countMax) lines are set aside already, which is the limit")
                throw ExitCode.badInput
            }
            self.printAnswer { json in
                json.member("request", request.number)
                json.member("repeated", isRepeated)
            }
            Console.printError(
                "a merger that has not read the line names it in its next round, and then none of the fleet reads it; its "
                    + "log says: a line was set aside for the whole fleet")
        } catch let error as StoreError {
            throw NetworkClient.ending(error)
        }
    }

    private func printAnswer(_ write: (inout JSONWriter) -> Void) {
        print(
            JSONWriter.line { json in
                json.member("reader", self.reader)
                json.member("stream", self.stream)
                json.member("offset", Int(clamping: self.offset))
                write(&json)
            })
    }

    private func record(_ stream: StreamName, in root: String) throws {
        let files = POSIXFileSystem(.data, dataDirectory: root)
        let data = DataDirectory(root: root, files: files)
        do {
            guard try files.status(at: data.state)?.kind == .directory else {
                Console.printError("\(root) is not the data directory of a receiver: it has no folder named state")
                throw ExitCode.noInput
            }
            guard try !data.hasState("merge") else {
                Console.printError(
                    "\(root) is a merger's data directory; ask the fleet with --store or --config, and every merger leaves "
                        + "the line out")
                throw ExitCode.badInput
            }
            let lock = try data.lock(processID: ProcessID.current)
            defer { files.close(lock) }
            let line = PoisonedLine(
                reader: self.reader, stream: stream, offset: self.offset, byteCount: 0, signal: 0,
                version: packageVersion, at: POSIXClock().wallTime())
            guard let all = try PoisonedLines.add(line, in: data) else {
                Console.printError("\(PoisonedLines.countMax) lines are set aside already, which is the limit")
                throw ExitCode.badInput
            }
            self.printAnswer { $0.member("lines", all.lines.count) }
        } catch let error as DataDirectoryError {
            Console.printError("\(error)")
            throw ExitCode.inUse
        } catch let error as FileSystemError {
            Console.printError("the line cannot be set aside: \(error)")
            throw ExitCode.files
        }
    }
}
