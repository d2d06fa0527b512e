"""Videos: `RecordVideo` for an environment and for a batch, `save_video`, `tile_frames`."""
