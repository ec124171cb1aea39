package org.apache.flink.metrics.prometheus;

import io.prometheus.client.exporter.HTTPServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Properties;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/**
 * Flink's own Prometheus reporter, on loopback: the one that it brings listens on every interface and cannot be told
 * otherwise. In this package because the registry of the metrics is visible nowhere else.
 */
public final class LoopbackReporterFactory implements MetricReporterFactory {

    /** For the service loader. */
    public LoopbackReporterFactory() {}

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return new LoopbackReporter(Integer.parseInt(properties.getProperty("port")));
    }

    private static final class LoopbackReporter extends AbstractPrometheusReporter {

        private final HTTPServer server;

        private LoopbackReporter(int port) {
            try {
                server = new HTTPServer(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), registry);
            } catch (IOException occupied) {
                throw new UncheckedIOException("metrics cannot be shown on port " + port, occupied);
            }
            log.info("Metrics are shown on port {} of loopback.", port);
        }

        @Override
        public void close() {
            server.stop();
            super.close();
        }
    }
}
