// Its presence alone selects the branch of sources that use Network.framework through NIOTransportServices.
