package import WaybillData
package import WaybillSystem

extension Journal {
    /// Begins a start of the receiver, with another incarnation if records were lost.
    ///
    /// A disk that refuses to record it does not prevent a start after which nothing is missing, nor one on a full disk.
    /// Otherwise readers of the journal would take it for whole, and agents would hear that it is not.
    package mutating func begin(
        _ seed: StartSeed, in data: DataDirectory<Files>, name: String, _ conditions: HostConditions,
        _ clock: any SystemClock, telemetry: JournalTelemetry
    ) throws(FileSystemError) {
        let isArchiveShort = try data.isArchiveShort()
        let isLossy = self.recovery.isLossy || isArchiveShort
        do throws(FileSystemError) {
            try self.begin(seed, isLossy: isLossy, at: conditions.clock.receiptTime(clock))
        } catch {
            guard !isLossy || error.isDiskFull else { throw error }
            telemetry.startDelayed(error)
        }
        if isLossy { telemetry.incarnationBegan(self.identity(name: name)) }
    }
}
