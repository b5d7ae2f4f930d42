internal import WaybillProjection
internal import WaybillSystem

/// Validation with the GA4 endpoint that checks requests and stores nothing.
extension Deliverer {
    /// Sends every record that is not delivered yet to the endpoint; nothing is counted as sent.
    ///
    /// - Parameter show: takes each complaint with its record.
    /// - Returns: the number of requests checked, and the number of complaints.
    package func validate(
        _ show: (String) -> Void
    ) async throws(DeliveryError) -> (requestCount: Int, complaintCount: Int) {
        do {
            return try await self.validateParts(show)
        } catch let ended as DeliveryEnded {
            switch ended.outcome {
            case .stopped(let reason): throw .notValidated(reason.description)
            case .unreachable(let detail): throw .notValidated(detail)
            case .finished, .interrupted: throw .notValidated("it was interrupted")
            }
        } catch {
            throw Self.deliveryError(error)
        }
    }

    private func validateParts(_ show: (String) -> Void) async throws -> (requestCount: Int, complaintCount: Int) {
        let template = try Self.template(self.configuration, isHistorical: false, isValidation: true)
        var counts = (requestCount: 0, complaintCount: 0)
        for part in try self.parts.pending(only: self.configuration.env).parts where self.hasCredentials(part.env) {
            let closed: ClosedPart<Files>
            do throws(PartError) {
                closed = try self.parts.open(part, of: self.configuration.provider)
            } catch {
                guard case .damaged(let detail) = error else { throw error }
                self.partIsDamaged("\(part.day)/\(part.name)", detail)
                continue
            }
            for number in (self.standing(of: part)?.next ?? 0)..<part.manifest.recordCount {
                let records = try closed.read(RecordSet(number..<number + 1))
                try await self.keepPace(eventCount: records[0].eventCount)
                let answer = await self.answers(to: [records], template, part.env)[0]
                let complaints = try self.complaints(answer)
                counts.requestCount += 1
                counts.complaintCount += complaints.count
                for complaint in complaints { show("\(part.day)/\(part.name) record \(number): \(complaint)\n") }
            }
        }
        return counts
    }

    private func complaints(_ answer: Answer) throws(DeliveryEnded) -> [String] {
        switch answer {
        case .response(let status, _, let body?) where (200..<300).contains(status):
            return AnswerText(status: status, body: body).validationMessages
        case .response(let status, _, let body):
            throw DeliveryEnded(outcome: .unreachable(detail: AnswerText(status: status, body: body ?? []).summary))
        case .notSent(let detail), .unknown(let detail):
            throw DeliveryEnded(outcome: .unreachable(detail: detail))
        }
    }
}
