"""Video files and frames: `save_video`, `tile_frames`, and what both `RecordVideo` share."""
