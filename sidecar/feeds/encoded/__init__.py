"""What all ways of messages that TiCDC has encoded have in common, whoever carries them: Kafka, or TiCDC's own sink to us."""
