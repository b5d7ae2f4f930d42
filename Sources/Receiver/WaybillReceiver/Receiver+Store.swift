internal import WaybillExport
internal import WaybillJournal
internal import WaybillSystem

/// The receiver's bucket.
extension Receiver {
    /// Whether this receiver writes archive and exports.
    var projects: Bool { self.store == nil || self.configuration.projections == .all }

    /// Those who must have read the journal before it is deleted.
    static func readers(_ configuration: ReceiverConfiguration, _ store: StoreAttachment?) -> Set<String> {
        let projections = ["archive"] + configuration.exports.map(\.provider.rawValue)
        guard store != nil else { return Set(projections) }
        return Set(configuration.projections == .all ? projections + [UploadLoop.name] : [UploadLoop.name])
    }

    /// Those who must have read a segment of the journal before a bound on the journal deletes it.
    ///
    /// The bucket always: agents are told what is stored by positions of the journal, so what was deleted before it was
    /// uploaded would count as stored.
    static func required(_ projections: Set<String>, among readers: Set<String>) -> Set<String> {
        projections.union([UploadLoop.name]).intersection(readers)
    }

    func startUploading(
        _ store: StoreAttachment, _ files: POSIXFileSystem, _ feed: JournalFeed, _ conditions: HostConditions,
        _ clock: any SystemClock
    ) -> Worker {
        // A merger waits with its seals for the time that this receiver writes.
        conditions.marks.set(true, for: UploadLoop.name)
        let loop = UploadLoop(
            store, self.configuration, feed: feed,
            retirement: self.retirement, telemetry: self.telemetry, clock: clock, announcement: self.announcement,
            stored: { [membership = self.configuration.membership] in membership?.advance(to: $0) })
        let handover = Handover(loop)
        return Worker(name: "waybill-upload") {
            handover.take { loop in
                var loop = loop
                loop.run(on: files)
            }
        }
    }
}
