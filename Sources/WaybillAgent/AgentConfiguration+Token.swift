package import WaybillMetrics
package import WaybillSystem

extension AgentConfiguration {
    /// The token to show now; `nil` for none.
    package func presentToken(on files: some FileSystem) throws(TokenFile.Failure) -> Secret? {
        guard let tokenFile else { return self.token }
        return try TokenFile(path: tokenFile).read(on: files)
    }
}
