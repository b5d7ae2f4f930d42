internal import Logging
internal import WaybillNotices
internal import WaybillSystem

extension DoorTelemetry {
    /// Counts a day of the quarantine that was deleted, and says why others stay.
    func retired(_ retirement: QuarantineRetirement) {
        switch retirement {
        case .done: return
        case .deleted(let day):
            _ = self.deletedDayCount.add(1, ordering: .relaxed)
            self.logger.notice("a day of the quarantine was deleted", metadata: ["day": "\(day)"])
        case .failed(let error, let dayCount):
            self.logger.warning(
                .doorQuarantineKept, "old days of the quarantine cannot be deleted; they are tried again tomorrow",
                metadata: ["days": .number(dayCount), "reason": "\(error)"])
        case .clockDoubted(let now, let youngest):
            self.logger.warning(
                .doorQuarantineKept, "the clock is wrong, and no day of the quarantine is deleted; set the clock",
                metadata: [
                    "reason": "the clock shows \(now.text), before date=\(youngest) or the date of the program"
                ])
        }
    }
}
