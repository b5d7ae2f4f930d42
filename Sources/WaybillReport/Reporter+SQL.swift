internal import WaybillArchive
internal import WaybillSystem

extension Reporter {
    /// The request as text for DuckDB; see ``SQLReports``.
    package func sql() throws(ReportFailure) -> String {
        let kept = try self.keptDays()
        return SQLReports.text(
            self.request, archive: self.data.archive,
            app: self.request.options.app ?? kept.bundles.sorted().first ?? "",
            zone: try self.zone(kept.zoneName).name)
    }
}
