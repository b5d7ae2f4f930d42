internal import WaybillData
internal import WaybillExport
internal import WaybillSystem

/// The receiver's bucket.
extension Receiver {
    /// Whether this receiver writes archive and exports.
    var projects: Bool { self.store == nil || self.configuration.projections == .all }

    /// Those who must have read the journal before it is deleted.
    static func readers(_ configuration: ReceiverConfiguration, _ store: StoreAttachment?) -> Set<String> {
        let projections = ProjectionHost.projections(configuration.host)
        guard store != nil else { return projections }
        return configuration.projections == .all ? projections.union([UploadLoop.name]) : [UploadLoop.name]
    }

    func startUploading(
        _ store: StoreAttachment, _ files: POSIXFileSystem, _ feed: JournalFeed, _ conditions: HostConditions,
        _ clock: any SystemClock
    ) -> Worker {
        // A merger waits with its seals for the time that this receiver writes.
        conditions.marks.set(true, for: UploadLoop.name)
        let loop = UploadLoop(
            store, self.configuration, feed: feed,
            retirement: self.host.retirement, telemetry: self.telemetry, clock: clock, announcement: self.announcement,
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
